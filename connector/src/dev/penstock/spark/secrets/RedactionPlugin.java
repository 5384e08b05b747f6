package dev.penstock.spark.secrets;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Cuts the values of Secrets out of what the JVMs of driver and executors print: their logs, and what
 * data sources in Java and in Python write to stdout and stderr.
 */
public final class RedactionPlugin implements SparkPlugin {
  /** Paths, one a line. */
  private static final String FILES = "spark.penstock.secretFiles";

  private static boolean installed;

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext context, PluginContext plugin) {
        install(plugin.conf());
        return Map.of();
      }
    };
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      @Override
      public void init(PluginContext plugin, Map<String, String> extra) {
        install(plugin.conf());
      }
    };
  }

  private static synchronized void install(SparkConf conf) {
    SecretFiles.redactFromNowOn(Stream.of(conf.get(FILES, "").split("\n")).map(Path::of).toList());
    if (!installed) {
      installed = true;
      System.setOut(redacting(System.out));
      System.setErr(redacting(System.err));
    }
  }

  private static PrintStream redacting(PrintStream printed) {
    return new PrintStream(new RedactingStream(printed), true, StandardCharsets.UTF_8);
  }
}
