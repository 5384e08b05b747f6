package dev.penstock.spark.secrets;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.LogicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.sparkproject.guava.util.concurrent.UncheckedExecutionException;

/**
 * Stands before an object of a data source that has secret options, and before all that it returns
 * and Spark shows: it has the same interfaces, gets the values where Spark passes options on, and
 * its text is the data source's name. The text of the object itself may have its options in it.
 */
final class DataSourceProxy implements InvocationHandler {
  private final Object real;
  private final TableProvider provider;
  private final SecretOptions secrets;

  private DataSourceProxy(Object real, TableProvider provider, SecretOptions secrets) {
    this.real = real;
    this.provider = provider;
    this.secrets = secrets;
  }

  /** A proxy of the object, whose table {@code provider} made; null for one of the first interface. */
  static <T> T of(T real, TableProvider provider, SecretOptions secrets) {
    @SuppressWarnings("unchecked")
    T proxy =
        (T)
            Proxy.newProxyInstance(
                real.getClass().getClassLoader(),
                interfaces(real.getClass()).toArray(Class<?>[]::new),
                new DataSourceProxy(real, provider, secrets));
    return proxy;
  }

  private static Set<Class<?>> interfaces(Class<?> type) {
    Set<Class<?>> found = new LinkedHashSet<>();
    for (Class<?> each = type; each != null; each = each.getSuperclass()) {
      for (Class<?> one : each.getInterfaces()) {
        if (Modifier.isPublic(one.getModifiers())) {
          found.add(one);
        }
        found.addAll(interfaces(one));
      }
    }
    return found;
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    switch (method.getName()) {
      case "equals":
        return proxy == arguments[0];
      case "hashCode":
        return System.identityHashCode(proxy);
      case "toString", "description":
        return secrets.format();
      case "name":
        if (real instanceof Table) {
          return secrets.format();
        }
        break;
      case "newScanBuilder":
        arguments[0] = secrets.resolved((CaseInsensitiveStringMap) arguments[0], provider);
        break;
      case "newWriteBuilder":
        arguments[0] = resolved((LogicalWriteInfo) arguments[0]);
        break;
      default:
    }
    try {
      return behindProxy(method.invoke(real, arguments));
    } catch (InvocationTargetException thrown) {
      throw undeclared(thrown.getCause());
    }
  }

  /**
   * Scala throws what Java wants declared, which a proxy cannot. Spark looks behind this exception
   * for that of a stop (StreamExecution.isInterruptionException, 4.3).
   */
  private static Throwable undeclared(Throwable thrown) {
    boolean isChecked = !(thrown instanceof RuntimeException || thrown instanceof Error);
    return isChecked ? new UncheckedExecutionException(thrown) : thrown;
  }

  private Object behindProxy(Object result) {
    boolean isShown =
        result instanceof ScanBuilder
            || result instanceof Scan
            || result instanceof SparkDataStream
            || result instanceof WriteBuilder
            || result instanceof Write
            || result instanceof StreamingWrite;
    return isShown ? of(result, provider, secrets) : result;
  }

  private LogicalWriteInfo resolved(LogicalWriteInfo info) {
    return new LogicalWriteInfoImpl(
        info.queryId(),
        info.schema(),
        secrets.resolved(info.options(), provider),
        info.rowIdSchema(),
        info.metadataSchema());
  }
}
