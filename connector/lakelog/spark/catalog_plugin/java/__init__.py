"""What the catalog needs of the JVM: classes, values, errors, predicates, scans, and proxies of interfaces."""
