package loud;

import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.slf4j.LoggerFactory;

/**
 * A part of a data source that says its options wherever it can: on stdout and stderr, in the log, as
 * its own text, and in an exception, in the method that the option {@code fails} names. The option
 * {@code heard} is a folder, in which it writes what it was given.
 */
final class Loud implements InvocationHandler, Serializable {
  private static final Set<String> FOR_EACH_ROW = Set.of("next", "get", "write");

  private final Object real;
  private final TreeMap<String, String> options;

  private Loud(Object real, Map<String, String> options) {
    this.real = real;
    this.options = new TreeMap<>(options);
  }

  static Object around(Object real, Map<String, String> options) {
    Set<Class<?>> interfaces = new LinkedHashSet<>();
    for (Class<?> each = real.getClass(); each != null; each = each.getSuperclass()) {
      interfaces.addAll(Set.of(each.getInterfaces()));
    }
    return Proxy.newProxyInstance(
        Loud.class.getClassLoader(),
        interfaces.toArray(Class<?>[]::new),
        new Loud(real, options));
  }

  /** Where a method begins. */
  static void say(String method, Map<String, String> options) {
    String text = method + " has " + options;
    System.out.println(text);
    System.err.println(text);
    LoggerFactory.getLogger("loud").error(text, new IllegalStateException(text));
    try {
      Path heard = Path.of(options.get("heard"), method);
      Files.writeString(heard, String.join("\n", options.values()));
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
    failIf(method, options);
  }

  private static void failIf(String method, Map<String, String> options) {
    if (method.equals(options.get("fails"))) {
      throw new IllegalStateException(method + " has failed with " + options);
    }
  }

  @Override
  public Object invoke(Object it, Method method, Object[] arguments) throws Throwable {
    String name = method.getName();
    switch (name) {
      case "toString", "description", "name":
        return "loud " + options;
      case "equals":
        return it == arguments[0];
      case "hashCode":
        return 1;
      default:
    }
    if (FOR_EACH_ROW.contains(name)) {
      failIf(name, options);
    } else {
      say(name, options);
    }
    try {
      Object result = method.invoke(real, arguments);
      boolean isPart =
          result != null
              && (result instanceof org.apache.spark.sql.connector.catalog.Table
                  || result instanceof org.apache.spark.sql.connector.read.ScanBuilder
                  || result instanceof org.apache.spark.sql.connector.read.Scan
                  || result instanceof org.apache.spark.sql.connector.read.PartitionReaderFactory
                  || result instanceof org.apache.spark.sql.connector.read.PartitionReader
                  || result instanceof org.apache.spark.sql.connector.read.streaming.SparkDataStream
                  || result instanceof org.apache.spark.sql.connector.write.WriteBuilder
                  || result instanceof org.apache.spark.sql.connector.write.Write
                  || result instanceof org.apache.spark.sql.connector.write.streaming.StreamingWrite
                  || result
                      instanceof
                      org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory
                  || result instanceof org.apache.spark.sql.connector.write.DataWriter);
      return isPart ? around(result, options) : result;
    } catch (InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }
}
