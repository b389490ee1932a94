"""Options of Paimon that do not change what lakelog reads and writes, by subject. See `foreign`."""

from __future__ import annotations

from collections.abc import Mapping

_KEYS = {
    "how Paimon's engines run: threads, memory, caches, timing": """
        async-file-write auto-create blob.copy-buffer-size blob.split-by-file-size bucket-append-ordered
        cache-page-size commit.native.enabled continuous.discovery-interval delete-file.thread-num
        file-operation.thread-num file-reader-async-threshold local-cache.block-size local-cache.dir
        local-cache.enabled local-cache.max-size local-cache.whitelist local-kv-db.block-size
        local-merge-buffer-size orc.write.batch-size page-size read.batch-size read.native.enabled
        read.parallelism scan.manifest.parallelism scan.max-splits-per-task scan.native-plan.enabled
        scan.plan-auto-tag-for-read.time-retained scan.plan-sort-partition
        sort-compaction.local-sample.magnification sort-compaction.range-strategy sort-engine
        sort-spill-buffer-size sort-spill-threshold streaming.read.snapshot.delay write-buffer-for-append
        write-manifest-cache write-max-writers-to-spill write.batch-memory write.batch-size
        write.native.enabled zorder.var-length-contribution
    """,
    "lookups of Paimon's engines: what they keep, and when compactions look up": """
        changelog-producer.lookup-wait lookup-compact lookup-compact.max-interval lookup-wait lookup.async
        lookup.async-thread-number lookup.blob-as-descriptor lookup.bootstrap-parallelism lookup.cache
        lookup.cache-file-retention lookup.cache-max-disk-size
        lookup.cache-rows lookup.cache-spill-compression lookup.cache.bloom.filter.enabled
        lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio
        lookup.continuous.discovery-interval lookup.dynamic-partition
        lookup.dynamic-partition.refresh-interval lookup.dynamic-partition.refresh.async
        lookup.hash-load-factor lookup.local-file-type lookup.merge-buffer-size
        lookup.merge-records-threshold lookup.refresh.async lookup.refresh.async.pending-snapshot-count
        lookup.refresh.full-load-threshold lookup.refresh.time-periods-blacklist lookup.remote-file.enabled
        lookup.remote-file.level-threshold
    """,
    "Flink's jobs: parallelism, memory, operators, watermarks, the end of a job": """
        changelog-producer.compaction-interval changelog.precommit-compact
        changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num
        commit.custom-listeners compaction.bucket-distribution-strategy
        cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl
        end-input.check-partition-expire end-input.watermark filesystem.job-level-settings.enabled
        log.scan.remove-normalize precommit-compact read.shuffle-bucket-with-partition scan.bounded
        scan.dedicated-split-generation scan.infer-parallelism scan.infer-parallelism.max
        scan.max-snapshot.count scan.parallelism scan.push-down scan.remove-normalize
        scan.split-enumerator.batch-size scan.split-enumerator.mode scan.watermark.alignment.group
        scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval
        scan.watermark.emit.strategy scan.watermark.idle-timeout sink.clustering.by-columns
        sink.clustering.sample-factor sink.clustering.sort-in-cluster sink.clustering.strategy
        sink.committer-cpu sink.committer-memory sink.committer-operator-chaining
        sink.coordinator-commit.enabled sink.cross-partition.managed-memory sink.key-only-deletes.enabled
        sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism sink.process-time-zone
        sink.savepoint.auto-tag sink.use-managed-memory-allocator
        sink.writer-coordinator.cache-expire-after-access sink.writer-coordinator.cache-memory
        sink.writer-coordinator.cache-soft-values sink.writer-coordinator.enabled
        sink.writer-coordinator.page-size sink.writer-coordinator.prefetch-manifests sink.writer-cpu
        sink.writer-memory sink.writer-refresh-detectors
        source.checkpoint-align.enabled source.checkpoint-align.timeout source.operator-uid.suffix
        streaming-read-atomic streaming-read.shuffle-bucket-with-partition
        unaware-bucket.compaction.parallelism unaware-bucket.no-shuffle
    """,
    "reads and writes of Spark and Hive through Paimon itself": """
        delete.force-produce-changelog dynamic-partition-overwrite legacy-timestamp-mapping.enabled
        paimon.respect.minmaxsplitsize.enabled paimon.split.openfilecost read.allow.fullScan
        read.stream.maxBytesPerTrigger read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger
        read.stream.maxTriggerDelayMs read.stream.minRowsPerTrigger requiredSparkConfsCheck.enabled
        source.split.target-size-with-column-pruning write.data-evolution.update-conflict-retry.max-attempts
        write.data-evolution.update-conflict-retry.wait-ms write.hive-style-dynamic-partition.enabled
        write.merge-schema write.merge-schema.explicit-cast write.merge-schema.type-widening
        write.use-v2-write
    """,
    "the form of new files, which readers take from the files; lakelog's have one form": """
        blob-compaction.enabled blob.target-file-size changelog-file.compression changelog-file.format
        changelog-file.stats-mode deletion-vector.index-file.target-size file.suffix.include.compression
        manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field
        manifest.delete-file-drop-stats manifest.merge-optimize.enabled metadata.stats-keep-first-n-columns
        metadata.stats-mode.per.level mosaic.num-buckets mosaic.stats-columns orc.bloom.filter.columns
        orc.bloom.filter.fpp orc.column.encoding.direct orc.compress orc.compression.zstd.level
        orc.dictionary.key.threshold parquet.enable.dictionary parquet.filter.columnindex.enabled
        parquet.variant.shreddingSchema parquet.write-page-index.enabled target-file-row-num
        variant.inferShreddingSchema variant.shredding.adaptive.maxInferBufferRow
        variant.shredding.adaptive.retentionRatio variant.shredding.inferenceMode
        variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
        variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio variant.shreddingSchema
        vector.file.format vector.target-file-size
    """,
    "indexes that let reads skip files; lakelog reads without them and writes none": """
        bitmap-index.compression bitmap-index.compression-level bitmap-index.dictionary-block-size
        bitmap-index.fallback-scan-max-size btree-index.block-size btree-index.bloom-filter.enabled
        btree-index.build.max-parallelism btree-index.cache-size btree-index.compression
        btree-index.compression-level btree-index.fallback-scan-max-size
        btree-index.high-priority-pool-ratio btree-index.records-per-range file-index.in-manifest-threshold
        file-index.read.enabled full-text-index.search-mode global-index.build.max-parallelism
        global-index.build.max-shard global-index.build.parallelism global-index.column-update-action
        global-index.enabled global-index.external-path global-index.filter.refine-from-data
        global-index.row-count-per-shard global-index.search-mode global-index.thread-num
        manifest.sidecar.enabled multivalue-index.compression multivalue-index.compression-level
        multivalue-index.dictionary-block-size scalar-index.search-mode sorted-index.build.max-parallelism
        sorted-index.records-per-file sorted-index.records-per-range vector-index.search-mode
        vector-search.distribute.enabled vector-search.lateral-join.batch-size
        vector-search.lateral-join.parallelism
    """,
    "when and how Paimon compacts, clusters and expires: no row changes by it": """
        clustering.columns clustering.history-partition.idle-to-full-sort clustering.history-partition.limit
        clustering.incremental clustering.incremental.mode clustering.incremental.optimize-write
        clustering.strategy commit.force-compact compaction.delete-ratio-threshold
        compaction.early-max.file-num compaction.file-num-limit compaction.force-rewrite-all-files
        compaction.force-up-level-0 compaction.manual-triggered compaction.max-sorted-run-num
        compaction.max.file-num compaction.partition-spec compaction.skip-expired-partitions
        compaction.small-file-ratio consumer.changelog-only consumer.ignore-progress consumer.mode
        overwrite-upgrade partition.expiration-batch-size partition.expiration-check-interval
        partition.expiration-max-num partition.sink-strategy snapshot.clean-empty-directories
        snapshot.expire.clean-empty-directories snapshot.expire.execution-mode streaming-compact
    """,
    "what Paimon's writers do beside a commit, and make up for at their next one: tags, marks, reports, Iceberg": """
        commit.callback.#.param commit.callbacks commit.discard-duplicate-files commit.force-create-snapshot
        commit.user-prefix metadata.iceberg-compatible metadata.iceberg.compaction.max.file-num
        metadata.iceberg.compaction.min.file-num metadata.iceberg.database
        metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version
        metadata.iceberg.glue.skip-archive metadata.iceberg.hadoop-conf-dir
        metadata.iceberg.hive-client-class metadata.iceberg.hive-conf-dir
        metadata.iceberg.hive-skip-update-stats metadata.iceberg.manifest-compression
        metadata.iceberg.manifest-legacy-version metadata.iceberg.previous-versions-max
        metadata.iceberg.storage metadata.iceberg.storage-location metadata.iceberg.table
        metadata.iceberg.uri metastore.partitioned-table metastore.tag-to-partition
        metastore.tag-to-partition.preview partition.end-input-to-done partition.idle-time-to-done
        partition.idle-time-to-report-statistic partition.mark-done-action
        partition.mark-done-action.custom.class partition.mark-done-action.http.params
        partition.mark-done-action.http.timeout partition.mark-done-action.http.url
        partition.mark-done-action.mode partition.mark-done.recover-from-state partition.time-interval
        snapshot.ignore-empty-commit
        tag.callback.#.param tag.callbacks
        visibility-callback.check-interval
        visibility-callback.enabled visibility-callback.timeout
    """,
    "what ALTER TABLE of Paimon allows": """
        add-column-before-partition alter-column-null-to-not-null.disabled deletion-vectors.modifiable
        disable-explicit-type-casting
    """,
    "together with an option that is refused, or a bucket that is not written: nothing without it": """
        chain-table.chain-partition-keys chain-table.split.key-range-enabled
        chain-table.streaming.merge-snapshot data-evolution.compaction.rewrite-row-ids
        data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
        data-evolution.reassign.skip-contiguous-row-count data-evolution.row-id-conflict-rewrite.max-size
        data-evolution.row-sidecar.enabled data-evolution.row-sidecar.max-selected-rows
        data-evolution.row-sidecar.max-selection-ratio data-evolution.write-cols-optimization.enabled
        data-file.external-paths data-file.external-paths.specific-fs data-file.external-paths.weights
        format-table.commit-hive-sync-url format-table.file.compression format-table.implementation
        format-table.partition-path-only-value format-table.repair.collect-statistics
        format-table.scan.list-parallelism format-table.statistics.parallelism incremental-between-scan-mode
        incremental-between-tag-to-snapshot materialized-table.definition-query
        materialized-table.interval-freshness materialized-table.interval-freshness.time-unit
        materialized-table.logical-refresh-mode materialized-table.refresh-handler-bytes
        materialized-table.refresh-handler-description materialized-table.refresh-mode
        materialized-table.refresh-status object-location postpone.batch-write-fixed-bucket
        postpone.batch-write-fixed-bucket.max-parallelism
        postpone.batch-write-fixed-bucket.rescale-load-factor postpone.default-bucket-num
        postpone.target-row-num-per-bucket postpone.target-size-per-bucket record-level.time-field
        record-level.time-field-type row-tracking.partition-group-on-commit scan.fallback-delta-branch
        scan.fallback-snapshot-branch
    """,
    "columns of BLOB and VECTOR, which the types in the schema name": """
        blob-as-descriptor blob-descriptor-field blob-descriptor.source-table blob-external-storage-field
        blob-external-storage-path blob-field blob-view-field blob-view.resolve.enabled
        blob-write-null-on-fetch-failure blob-write-null-on-missing-file blob.stored-descriptor-fields
        vector-field video-frame-field
    """,
    "system tables of Paimon, which lakelog does not have": """
        key-value.sequence_number.enabled table-read.sequence-number.enabled
    """,
    "damaged and lost files, which are errors here and never left out": """
        scan.fallback-branch.read-fail-fast scan.ignore-corrupt-files scan.ignore-lost-files
    """,
    "where the table is: it is in the folder that is opened": """
        path root-path
    """,
    "the log of Paimon before 1.4, which is another than lakelog's": """
        kafka.bootstrap.servers kafka.topic log.system.partitions
        log.system.replication streaming-read-mode
    """,
    "old writers, whose files are read without it": """
        append-only.assert-disorder sequence.auto-padding
    """,
}
HARMLESS: Mapping[str, tuple[str, ...]] = {about: tuple(keys.split()) for about, keys in _KEYS.items()}
