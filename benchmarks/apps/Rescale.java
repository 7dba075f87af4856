import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Running sums by key of a steady stream: what Flink rescales in `benchmarks/change.py`. */
public final class Rescale {
  private Rescale() {}

  /** Lets so many numbers a second pass in each of its partitions. */
  public static final class Steady extends RichMapFunction<Long, Long> {
    private final long nanos;
    private transient long due;

    public Steady(long perSecond) { nanos = 1_000_000_000L / perSecond; }

    @Override public void open(OpenContext context) { due = System.nanoTime(); }

    @Override public Long map(Long number) throws InterruptedException {
      due = Math.max(due + nanos, System.nanoTime() - 10_000_000L);
      long left = due - System.nanoTime();
      if (left > 1_000_000L) Thread.sleep(left / 1_000_000L);
      return number;
    }
  }

  public static final class Sum extends KeyedProcessFunction<Long, Long, String> {
    private transient ValueState<Long> sum;

    @Override public void open(OpenContext context) {
      sum = getRuntimeContext().getState(new ValueStateDescriptor<>("sum", Long.class));
    }

    @Override public void processElement(Long number, Context context, Collector<String> out) throws Exception {
      Long before = sum.value();
      long after = (before == null ? 0 : before) + number;
      sum.update(after);
      out.collect(context.getCurrentKey() + "," + after);
    }
  }

  /** Arguments: numbers a second and keys, then `name=value` of Flink's configuration. */
  public static void main(String[] options) throws Exception {
    Configuration conf = new Configuration();
    List<String> rest = List.of(options).subList(5, options.length);
    for (String option : new ArrayList<>(rest)) {
      String[] pair = option.split("=", 2);
      conf.setString(pair[0], pair[1]);
    }
    long perSecond = Long.parseLong(options[0]);
    long keys = Long.parseLong(options[1]);
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createRemoteEnvironment(options[2], Integer.parseInt(options[3]), conf, options[4]);
    env.fromSequence(0, Long.MAX_VALUE / 2).setParallelism(1).uid("numbers")
        .map(new Steady(perSecond)).setParallelism(1).uid("steady")
        .keyBy(number -> number % keys)
        .process(new Sum()).uid("sums").name("sums")
        .print().setParallelism(1).uid("sink");
    System.out.println(env.executeAsync("rescale").getJobID());
    System.exit(0);
  }
}
