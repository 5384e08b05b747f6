import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends numbered payments and receives the flagged ones, or their counts by key, with one clock.
 *
 * <p>Serves one stream after another, so that its own code stays compiled. A line on stdin names
 * the source topic, the sink topic, the folder of the results, the query and the phases:
 *
 * <pre>payments-1 flags-1 /tmp/results flags 100:0 1000:20 100:30</pre>
 *
 * <p>With the query "counts" the keys take turns, so the count of a key tells the number of its
 * newest payment. A query may leave counts out: a count also stands for the earlier ones of its key.
 *
 * <p>A phase is RATE:SECONDS, and with rate 0 a pause; the first one lasts until the first record
 * arrives. On stdout it says "phase N" at the start of phase N and after the last one, and "done"
 * once every flagged payment has arrived, or none has for PATIENCE_SECONDS. Then sent.csv and
 * received.csv have a line for each record.
 */
public final class Load {
  private static final long PATIENCE_SECONDS = 30;
  private static final long SECOND = 1_000_000_000L;
  /** A sender parks until this long before a record is due, then spins: a park may end late. */
  private static final long SPIN_NANOS = 100_000;
  /** An even number: each key has its records in one of the two partitions. */
  private static final int KEYS = 100;

  private final String bootstrap;

  private Load(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  public static void main(String[] arguments) throws Exception {
    Load load = new Load(arguments[0]);
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      List<Phase> phases = List.of(words).subList(4, words.length).stream().map(Phase::of).toList();
      Query query = words[3].equals("counts") ? new Counts() : new Flags();
      load.run(words[0], words[1], Path.of(words[2]), query, phases);
      say("done");
    }
  }

  /** A number of records a second, for a number of seconds. */
  private record Phase(long rate, long seconds) {
    static Phase of(String text) {
      String[] parts = text.split(":");
      return new Phase(Long.parseLong(parts[0]), Long.parseLong(parts[1]));
    }
  }

  /** What is sent, and which payments a received record answers. */
  private interface Query {
    String key(int number);

    /** Whether the payment has an answer. */
    boolean flagged(int number);

    /** The payments that the record answers. */
    int[] answered(ConsumerRecord<String, String> record);

    boolean asSent(ConsumerRecord<String, String> record, int number);
  }

  private static String payment(int number, boolean flagged) {
    long id = number * 10L + (flagged ? 3 : 4);
    return "{\"paymentId\": " + id + ", \"amount\": 9.5, \"currency\": \"EUR\", \"card\": \"4111\"}";
  }

  /** Four of five payments are flagged, so the paymentId holds a record's number. */
  private static final class Flags implements Query {
    @Override
    public String key(int number) {
      return Integer.toString(number);
    }

    @Override
    public boolean flagged(int number) {
      return number % 5 != 0;
    }

    @Override
    public int[] answered(ConsumerRecord<String, String> record) {
      String value = record.value();
      int start = value.indexOf(':') + 2;
      long id = Long.parseLong(value.substring(start, value.indexOf(',')));
      return new int[] {(int) (id / 10)};
    }

    @Override
    public boolean asSent(ConsumerRecord<String, String> record, int number) {
      return record.value().equals(payment(number, flagged(number)))
          && key(number).equals(record.key());
    }
  }

  /** Each payment adds one to the count of its key. */
  private static final class Counts implements Query {
    private final int[] newest = new int[KEYS];

    @Override
    public String key(int number) {
      return Integer.toString(number % KEYS);
    }

    @Override
    public boolean flagged(int number) {
      return true;
    }

    @Override
    public int[] answered(ConsumerRecord<String, String> record) {
      int key = Integer.parseInt(record.key());
      int count = Integer.parseInt(record.value());
      int before = newest[key];
      newest[key] = Math.max(before, count);
      int first = count > before ? before : count - 1; // a count that comes again answers its own
      return IntStream.range(first, count).map(earlier -> earlier * KEYS + key).toArray();
    }

    @Override
    public boolean asSent(ConsumerRecord<String, String> record, int number) {
      return key(number).equals(record.key());
    }
  }

  private void run(String source, String sink, Path folder, Query query, List<Phase> phases)
      throws Exception {
    AtomicBoolean started = new AtomicBoolean();
    AtomicLong awaited = new AtomicLong(Long.MAX_VALUE);
    Thread receiver =
        new Thread(() -> receive(sink, folder.resolve("received.csv"), query, started, awaited));
    receiver.setDaemon(true); // or this process would not end when a record cannot be sent
    receiver.start();
    awaited.set(send(source, folder.resolve("sent.csv"), query, phases, started));
    receiver.join();
  }

  /** Returns how many flagged payments it sent. */
  private long send(
      String topic, Path file, Query query, List<Phase> phases, AtomicBoolean started)
      throws Exception {
    int most = phases.stream().skip(1).mapToInt(it -> (int) (it.rate * it.seconds)).sum();
    // Until the first record arrives: half an hour at the most.
    most += (int) phases.get(0).rate * 1800;
    long[] sentAt = new long[most];
    long[] appendedAt = new long[most];
    byte[] phaseOf = new byte[most];
    AtomicReference<Exception> refused = new AtomicReference<>();
    int number = 0;
    Map<String, Object> options =
        Map.of("bootstrap.servers", bootstrap, "acks", "all", "linger.ms", 0);
    try (var producer =
        new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
      producer.partitionsFor(topic);
      for (int phase = 0; phase < phases.size(); phase++) {
        say("phase " + phase);
        long rate = phases.get(phase).rate;
        long due = System.nanoTime();
        long end = phase == 0 ? Long.MAX_VALUE : due + phases.get(phase).seconds * SECOND;
        if (rate == 0) {
          waitUntil(end);
          continue;
        }
        long interval = SECOND / rate;
        for (; due - end < 0 && !(phase == 0 && started.get()); due += interval, number++) {
          waitUntil(due);
          int index = number;
          phaseOf[index] = (byte) phase;
          String value = payment(number, query.flagged(number));
          ProducerRecord<String, String> record =
              new ProducerRecord<>(topic, number % 2, query.key(number), value);
          sentAt[index] = System.nanoTime();
          producer.send(
              record,
              (metadata, failure) -> {
                appendedAt[index] = failure == null ? metadata.timestamp() : 0;
                refused.compareAndSet(null, failure);
              });
        }
      }
      say("phase " + phases.size());
    }
    if (refused.get() != null) {
      throw new IllegalStateException("the broker did not take every payment", refused.get());
    }
    try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file))) {
      out.println("number,phase,flagged,sent_ns,appended_ms");
      for (int i = 0; i < number; i++) {
        out.println(
            i + "," + phaseOf[i] + "," + (query.flagged(i) ? 1 : 0) + "," + sentAt[i] + ","
                + appendedAt[i]);
      }
    }
    int count = 0;
    for (int i = 0; i < number; i++) {
      count += query.flagged(i) ? 1 : 0;
    }
    return count;
  }

  private static void waitUntil(long due) {
    for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
      if (left > SPIN_NANOS) {
        LockSupport.parkNanos(left - SPIN_NANOS);
      } else {
        Thread.onSpinWait();
      }
    }
  }

  private void receive(
      String topic, Path file, Query query, AtomicBoolean started, AtomicLong awaited) {
    Map<String, Object> options =
        Map.of(
            "bootstrap.servers", bootstrap,
            // Only one variant writes transactions.
            "isolation.level", "read_committed",
            // A poll returns one record, so each has its own time of arrival.
            "max.poll.records", 1,
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
    try (var consumer =
            new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer());
        PrintWriter out = new PrintWriter(Files.newBufferedWriter(file))) {
      out.println("number,as_sent,received_ns,appended_ms");
      consumer.assign(
          consumer.partitionsFor(topic).stream()
              .map(it -> new TopicPartition(topic, it.partition()))
              .toList());
      BitSet seen = new BitSet();
      long last = System.nanoTime();
      for (long count = 0; count < awaited.get(); ) {
        var records = consumer.poll(Duration.ofMillis(200));
        long now = System.nanoTime();
        if (records.isEmpty()) {
          if (awaited.get() != Long.MAX_VALUE && now - last > PATIENCE_SECONDS * SECOND) {
            return;
          }
          continue;
        }
        last = now;
        started.set(true);
        for (ConsumerRecord<String, String> record : records) {
          for (int number : query.answered(record)) {
            int asSent = query.asSent(record, number) ? 1 : 0;
            out.println(number + "," + asSent + "," + now + "," + record.timestamp());
            if (query.flagged(number) && !seen.get(number)) {
              seen.set(number);
              count++;
            }
          }
        }
      }
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  private static void say(String word) {
    System.out.println(word);
    System.out.flush();
  }
}
