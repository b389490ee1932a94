import java.lang.reflect.*;
import java.util.*;
import java.util.jar.*;
import java.util.stream.*;

/**
 * Prints every option that the classes of Paimon declare, and what Paimon makes of texts:
 *
 *   java -cp JAR PaimonOptions.java JAR options > paimon_options.tsv
 *   java -cp JAR PaimonOptions.java JAR values > paimon_values.tsv
 *
 * JAR is paimon-flink-2.0 of version 2.0.0. A line of options: key, class, type, default, values of an enum, older
 * keys. A line of values: type, text, what the parser gives (bytes, milliseconds, the value of the enum), or - where
 * Paimon refuses it.
 */
public class PaimonOptions {
  static final String[] SIZES = {"b", "bytes", "k", "kb", "kibibytes", "m", "mb", "mebibytes", "g", "gb", "gibibytes",
      "t", "tb", "tebibytes", "byte", "kib", "mib", "kilobytes", "p", "pb", "%"};
  static final String[] TIMES = {"d", "day", "days", "h", "hour", "hours", "min", "m", "minute", "minutes", "s", "sec",
      "secs", "second", "seconds", "ms", "milli", "millis", "millisecond", "milliseconds", "\u00b5s", "us", "micro",
      "micros", "microsecond", "microseconds", "ns", "nano", "nanos", "nanosecond", "nanoseconds", "mins", "hrs",
      "week", "month"};
  static final String[] FORMS = {"12%s", "12 %s", " 3  %S ", "7%s x", "-1 %s", "1.5 %s", "%s", "1 0 %s", "+2 %s",
      "9223372036854775808 %s"};

  public static void main(String[] given) throws Exception {
    SortedMap<String, String> lines = new TreeMap<>();
    Set<Class<?>> enums = new LinkedHashSet<>();
    Class<?> option = Class.forName("org.apache.paimon.options.ConfigOption");
    Method type = option.getDeclaredMethod("getClazz");
    type.setAccessible(true);
    for (JarEntry entry : Collections.list(new JarFile(given[0]).entries())) {
      String name = entry.getName();
      if (!name.startsWith("org/apache/paimon/") || !name.endsWith(".class")) {
        continue;
      }
      for (Field field : fields(name.substring(0, name.length() - 6).replace('/', '.'))) {
        if (!Modifier.isStatic(field.getModifiers()) || field.getType() != option) {
          continue;
        }
        field.setAccessible(true);
        Object found = field.get(null);
        Class<?> kind = (Class<?>) type.invoke(found);
        Object key = option.getMethod("key").invoke(found);
        Object value = option.getMethod("defaultValue").invoke(found);
        if (kind.isEnum()) {
          enums.add(kind);
        }
        lines.put(key.toString(), String.join("\t", key.toString(), field.getDeclaringClass().getSimpleName(),
            kind.getSimpleName(), text(value), values(kind),
            older(option, found)));
      }
    }
    if (given[1].equals("options")) {
      lines.values().forEach(System.out::println);
      return;
    }
    printParsed(Class.forName("org.apache.paimon.options.MemorySize"), SIZES);
    printParsed(java.time.Duration.class, TIMES);
    for (Class<?> kind : enums) {
      for (Object one : kind.getEnumConstants()) {
        String text = one.toString();
        for (String form : new TreeSet<>(List.of(text, text.toUpperCase(), text.toLowerCase(),
            text.replace('-', '_'), text.replace('_', '-'), ((Enum<?>) one).name()))) {
          System.out.println(String.join("\t", kind.getSimpleName(), form, parsed(form, kind)));
        }
      }
    }
  }

  static Field[] fields(String name) {
    try {
      return Class.forName(name, false, PaimonOptions.class.getClassLoader()).getDeclaredFields();
    } catch (LinkageError | ClassNotFoundException error) {
      return new Field[0]; // a class of another system's interfaces, which are not in the jar
    }
  }

  static String text(Object value) {
    return value instanceof java.time.Duration ? ((java.time.Duration) value).toMillis() + " ms"
        : Objects.toString(value, "").replace("\n", "\\n");
  }

  static String older(Class<?> option, Object found) throws Exception {
    List<String> keys = new ArrayList<>();
    for (Object one : (Iterable<?>) option.getMethod("fallbackKeys").invoke(found)) {
      keys.add(one.getClass().getMethod("getKey").invoke(one).toString());
    }
    return String.join(",", keys);
  }

  static String values(Class<?> kind) {
    return kind.isEnum() ? Stream.of(kind.getEnumConstants()).map(Object::toString).collect(Collectors.joining(","))
        : "";
  }

  static void printParsed(Class<?> kind, String[] units) throws Exception {
    for (String form : FORMS) {
      for (String unit : units) {
        String text = String.format(form, unit);
        System.out.println(String.join("\t", kind.getSimpleName(), text, parsed(text, kind)));
      }
      String bare = String.format(form, "");
      System.out.println(String.join("\t", kind.getSimpleName(), bare, parsed(bare, kind)));
    }
  }

  static String parsed(String text, Class<?> kind) throws Exception {
    Method convert = Class.forName("org.apache.paimon.options.OptionsUtils")
        .getMethod("convertValue", Object.class, Class.class);
    try {
      Object found = convert.invoke(null, text, kind);
      if (found instanceof java.time.Duration) {
        return Long.toString(((java.time.Duration) found).toMillis());
      }
      return kind.isEnum() ? found.toString() : found.getClass().getMethod("getBytes").invoke(found).toString();
    } catch (InvocationTargetException | ArithmeticException error) {
      return "-";
    }
  }
}
