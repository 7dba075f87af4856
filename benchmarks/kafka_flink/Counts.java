import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The job of kafka-age in Flink: valid messages, counted by key, each count written in a transaction. */
public final class Counts {
  private Counts() {}

  /** A message as its key and its value. */
  public static final class Read implements KafkaRecordDeserializationSchema<Tuple2<String, String>> {
    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> message, Collector<Tuple2<String, String>> out) {
      out.collect(Tuple2.of(text(message.key()), text(message.value())));
    }

    @Override
    public TypeInformation<Tuple2<String, String>> getProducedType() {
      return Types.TUPLE(Types.STRING, Types.STRING);
    }

    private static String text(byte[] bytes) { return new String(bytes, StandardCharsets.UTF_8); }
  }

  /** The key of a message; a lambda has no type that Flink finds. */
  public static final class Key implements SerializationSchema<Tuple2<String, String>> {
    @Override
    public byte[] serialize(Tuple2<String, String> one) { return one.f0.getBytes(StandardCharsets.UTF_8); }
  }

  /** Its value. */
  public static final class Value implements SerializationSchema<Tuple2<String, String>> {
    @Override
    public byte[] serialize(Tuple2<String, String> one) { return one.f1.getBytes(StandardCharsets.UTF_8); }
  }

  /** Counts the messages of each key. */
  public static final class Count extends KeyedProcessFunction<String, Tuple2<String, String>, Tuple2<String, String>> {
    private transient ValueState<Long> seen;

    @Override
    public void open(OpenContext context) {
      seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Types.LONG));
    }

    @Override
    public void processElement(
        Tuple2<String, String> one, Context context, Collector<Tuple2<String, String>> out) throws Exception {
      Long before = seen.value();
      long count = (before == null ? 0 : before) + 1;
      seen.update(count);
      String rest = one.f1.substring(one.f1.indexOf("\"created\""));
      out.collect(Tuple2.of(one.f0, "{\"count\": " + count + ", " + rest));
    }
  }

  /** Arguments: servers, source, target, folder, then `name=value` of Flink's configuration. */
  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0];
    Configuration settings = new Configuration();
    for (int at = 4; at < arguments.length; at++) {
      String[] pair = arguments[at].split("=", 2);
      settings.setString(pair[0], pair[1]);
    }
    settings.setString("execution.checkpointing.dir", "file://" + arguments[3] + "/checkpoints");
    StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
    Properties reading = new Properties();
    reading.setProperty("isolation.level", "read_committed");
    KafkaSource<Tuple2<String, String>> source = KafkaSource.<Tuple2<String, String>>builder()
        .setBootstrapServers(servers)
        .setTopics(arguments[1])
        .setGroupId("flink")
        .setStartingOffsets(OffsetsInitializer.latest())
        .setProperties(reading)
        .setDeserializer(new Read())
        .build();
    KafkaSink<Tuple2<String, String>> sink = KafkaSink.<Tuple2<String, String>>builder()
        .setBootstrapServers(servers)
        .setRecordSerializer(KafkaRecordSerializationSchema.<Tuple2<String, String>>builder()
            .setTopic(arguments[2])
            .setKeySerializationSchema(new Key())
            .setValueSerializationSchema(new Value())
            .build())
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix("flink-" + arguments[1])
        .setTransactionNamingStrategy(TransactionNamingStrategy.POOLING)
        .setProperty("transaction.timeout.ms", "60000")
        .setProperty("linger.ms", "0")
        .build();
    job.fromSource(source, WatermarkStrategy.noWatermarks(), "events")
        .filter(one -> one.f1.contains("\"number\""))
        .keyBy(one -> one.f0)
        .process(new Count())
        .sinkTo(sink);
    job.execute("counts");
  }
}
