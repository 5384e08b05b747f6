package dev.penstock.spark;

import java.util.Map;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.deploy.security.HadoopDelegationTokenManager;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.kafka010.KafkaTokenClusterConf;
import org.apache.spark.kafka010.KafkaTokenUtil;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** The parameters of a Kafka client, with the newest delegation token if Spark has any. */
final class ClientParameters {
  private final Map<String, Object> given;
  private final boolean hasTokens;
  private final Option<KafkaTokenClusterConf> tokens;

  ClientParameters(Map<String, Object> given) {
    this.given = given;
    SparkConf conf = SparkEnv.get().conf();
    hasTokens = HadoopDelegationTokenManager.isServiceEnabled(conf, "kafka");
    String servers = (String) given.get(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG);
    tokens = KafkaTokenUtil.findMatchingTokenClusterConfig(conf, servers);
  }

  /** Of a client that is made now. */
  Map<String, Object> build() {
    var asked = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(given));
    return new KafkaConfigUpdater("executor", asked)
        .setAuthenticationConfigIfNeeded(tokens)
        .build();
  }

  /** Whether a client that was made with these has to be replaced. */
  boolean areOutdated(Map<String, Object> built) {
    return hasTokens && KafkaTokenUtil.needTokenUpdate(built, tokens);
  }
}
