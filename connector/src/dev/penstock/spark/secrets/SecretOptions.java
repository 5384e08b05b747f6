package dev.penstock.spark.secrets;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.penstock.spark.Unchecked;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.execution.datasources.DataSource$;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils;
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The options of a data source, of which some are paths of Secrets' files to Spark, and values to
 * the data source.
 *
 * <p>Spark shows options in plans, progress and its web UI.
 *
 * @param format the name of the data source
 * @param files of the options whose values are in Secrets, the files
 */
record SecretOptions(String format, Map<String, String> files) {
  private static final String FORMAT = "penstock.format";
  private static final String FILES = "penstock.secretFiles";
  private static final ObjectMapper JSON = new ObjectMapper();

  static SecretOptions of(Map<String, String> options) {
    var given = new CaseInsensitiveStringMap(options);
    try {
      Map<String, String> files = JSON.readValue(given.get(FILES), new TypeReference<>() {});
      return new SecretOptions(given.get(FORMAT), files);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException(FILES + " is not an object of JSON", error);
    }
  }

  /** A new instance of the data source's class. */
  Object dataSource() {
    Object found;
    try {
      Class<?> type = DataSource$.MODULE$.lookupDataSource(format, SQLConf.get());
      found = type.getDeclaredConstructor().newInstance();
    } catch (InvocationTargetException error) {
      throw Unchecked.<RuntimeException>rethrow(error.getCause());
    } catch (ReflectiveOperationException error) {
      throw new IllegalArgumentException("The data source " + format + " cannot be made", error);
    }
    if (found instanceof PythonDataSourceV2 python) {
      python.setShortName(format);
    }
    if (found instanceof FileFormat || found instanceof FileDataSourceV2) {
      throw new IllegalArgumentException(
          format + " is a format of files, which has no secret options: use spec.secretSparkConf");
    }
    return found;
  }

  /** The options with the values, for a data source of Spark's first interface. */
  scala.collection.immutable.Map<String, String> resolved(
      scala.collection.immutable.Map<String, String> options) {
    var written = options instanceof CaseInsensitiveMap<String> map ? map.originalMap() : options;
    var resolved = resolved(CollectionConverters.asJava(written));
    // As DataSource.createSource and createSink pass them on (4.3).
    return CaseInsensitiveMap$.MODULE$.apply(
        scala.collection.immutable.Map.from(CollectionConverters.asScala(resolved)));
  }

  /** The options with the values, and with those that the session has for this data source. */
  CaseInsensitiveStringMap resolved(CaseInsensitiveStringMap options, TableProvider provider) {
    var ofSession = DataSourceV2Utils.extractSessionConfigs(provider, SQLConf.get());
    Map<String, String> all = new HashMap<>(CollectionConverters.asJava(ofSession));
    all.keySet().removeIf(options::containsKey);
    all.putAll(options.asCaseSensitiveMap());
    return new CaseInsensitiveStringMap(resolved(all));
  }

  private Map<String, String> resolved(Map<String, String> options) {
    Map<String, String> all = new HashMap<>(options);
    all.keySet().removeIf(name -> name.toLowerCase(Locale.ROOT).startsWith("penstock."));
    files.forEach(
        (name, file) -> {
          all.keySet().removeIf(name::equalsIgnoreCase);
          all.put(name, SecretFiles.content(Path.of(file)));
        });
    return all;
  }

  /** The name alone: values and paths are nobody's business. */
  @Override
  public String toString() {
    return format;
  }
}
