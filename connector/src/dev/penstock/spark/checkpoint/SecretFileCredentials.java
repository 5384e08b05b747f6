package dev.penstock.spark.checkpoint;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;

/**
 * The keys of an object store from the files of a mounted Secret.
 *
 * <p>They are read for each request, so that keys that are rotated need no restart, and no setting
 * of Spark or Hadoop holds them.
 */
public final class SecretFileCredentials implements AwsCredentialsProvider {
  private static final String ACCESS_KEY_ID_FILE = "fs.s3a.penstock.access.key.id.file";
  private static final String SECRET_ACCESS_KEY_FILE = "fs.s3a.penstock.secret.access.key.file";

  private final Path accessKeyId;
  private final Path secretAccessKey;

  /** S3A's constructor (S3AUtils.getInstanceFromReflection, Hadoop 3.5). */
  public SecretFileCredentials(URI bucket, Configuration conf) {
    accessKeyId = Path.of(conf.getTrimmed(ACCESS_KEY_ID_FILE));
    secretAccessKey = Path.of(conf.getTrimmed(SECRET_ACCESS_KEY_FILE));
  }

  @Override
  public AwsCredentials resolveCredentials() {
    try {
      String id = Files.readString(accessKeyId).strip();
      return AwsBasicCredentials.create(id, Files.readString(secretAccessKey).strip());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
