// Writes the ORC files of this folder, and what ORC's reader for Java finds in them. With the jars of PySpark:
//   java -cp "<pyspark>/jars/*" WriteTimestamps.java ZONE FILE.orc COMPRESSION < moments.txt

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.sql.Timestamp;
import java.time.*;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.orc.*;

public class WriteTimestamps {
  public static void main(String[] args) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone(args[0]));
    String file = new File(args[1]).getAbsolutePath();
    List<String> moments = new BufferedReader(new InputStreamReader(System.in)).lines().toList();
    TypeDescription schema = TypeDescription.fromString("struct<t:timestamp,l:array<timestamp>>");
    Files.deleteIfExists(Paths.get(file));
    Writer writer =
        OrcFile.createWriter(
            new Path("file://" + file),
            OrcFile.writerOptions(new Configuration()).setSchema(schema).compress(CompressionKind.valueOf(args[2])));
    VectorizedRowBatch batch = schema.createRowBatch(moments.size());
    TimestampColumnVector times = (TimestampColumnVector) batch.cols[0];
    ListColumnVector lists = (ListColumnVector) batch.cols[1];
    TimestampColumnVector elements = (TimestampColumnVector) lists.child;
    lists.childCount = moments.size();
    for (int row = 0; row < moments.size(); row++) {
      Timestamp moment = Timestamp.valueOf(LocalDateTime.parse(moments.get(row)));
      times.set(row, moment);
      elements.set(row, moment);
      lists.offsets[row] = row;
      lists.lengths[row] = 1;
    }
    batch.size = moments.size();
    writer.addRowBatch(batch);
    writer.close();

    Reader reader =
        OrcFile.createReader(
            new Path("file://" + file), OrcFile.readerOptions(new Configuration()).useUTCTimestamp(true));
    RecordReader rows = reader.rows();
    VectorizedRowBatch read = schema.createRowBatch(moments.size() + 1);
    rows.nextBatch(read);
    TimestampColumnVector found = (TimestampColumnVector) read.cols[0];
    StringBuilder text = new StringBuilder();
    for (int row = 0; row < read.size; row++) {
      long second = Math.floorDiv(found.time[row], 1000L);
      text.append(LocalDateTime.ofEpochSecond(second, found.nanos[row], ZoneOffset.UTC)).append('\n');
    }
    Files.writeString(Paths.get(file.replace(".orc", ".txt")), text);
  }
}
