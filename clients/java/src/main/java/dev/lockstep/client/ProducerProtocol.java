package dev.lockstep.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;

/** Which transaction protocol a producer speaks (KIP-890). */
public enum ProducerProtocol {
  /** kafka-clients before 4.0. */
  TV1,
  /** kafka-clients from 4.0. The server takes it for TV1 where the cluster is below 2. */
  TV2;

  /**
   * Where kafka-clients says which version it is: the place stays, while the class that reads it
   * (AppInfoParser) has moved between releases.
   */
  private static final String VERSION_FILE = "/kafka/kafka-version.properties";

  /**
   * What the kafka-clients on the class path speaks.
   *
   * @throws IllegalStateException if it does not tell its version, as when it was repackaged
   */
  static ProducerProtocol ofKafkaClients() {
    Properties properties = new Properties();
    try (InputStream file = KafkaProducer.class.getResourceAsStream(VERSION_FILE)) {
      if (file != null) properties.load(file);
    } catch (IOException e) {
      throw new UncheckedIOException(VERSION_FILE, e);
    }
    return of(properties.getProperty("version", "unknown").trim());
  }

  static ProducerProtocol of(String version) {
    int dot = version.indexOf('.');
    try {
      return Integer.parseInt(dot < 0 ? version : version.substring(0, dot)) >= 4 ? TV2 : TV1;
    } catch (NumberFormatException e) {
      throw new IllegalStateException(
          "kafka-clients says that its version is \"" + version + "\": name the ProducerProtocol",
          e);
    }
  }
}
