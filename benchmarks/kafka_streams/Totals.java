import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** Three operators with exactly_once_v2: valid messages, counted by key in memory, each count written at once. */
public class Totals {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[0]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[4]);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.producerPrefix("linger.ms"), 0);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> messages = builder.stream(arguments[2]);
        messages.filter((key, value) -> value.contains("\"number\""))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> "0|", (key, value, total) -> {
                long count = Long.parseLong(total.substring(0, total.indexOf('|'))) + 1;
                return count + "|" + value.substring(value.indexOf("\"created\""), value.length());
            }, Materialized.<String, String>as(Stores.inMemoryKeyValueStore("totals"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .toStream()
            .mapValues(total -> "{\"count\": " + total.substring(0, total.indexOf('|')) + ", "
                + total.substring(total.indexOf('|') + 1))
            .to(arguments[3]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
