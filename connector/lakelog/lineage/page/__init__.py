"""The lineage of fields over HTTP: a REST API, and the page that shows it. Needs the extra `page`."""
