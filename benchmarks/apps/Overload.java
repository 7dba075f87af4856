import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Records that come at given rates, and a step that works on each: `benchmarks/overload.py`. */
public final class Overload {
  private Overload() {}

  /** Lets each record pass when it is due. "seconds:rate,...": the rates one after the other. */
  public static final class Due extends RichMapFunction<Long, Double> {
    private final double[][] rates;
    private transient double began;

    public Due(String profile) {
      String[] parts = profile.split(",");
      rates = new double[parts.length][];
      for (int i = 0; i < parts.length; i++) {
        String[] pair = parts[i].split(":");
        rates[i] = new double[] {Double.parseDouble(pair[0]), Double.parseDouble(pair[1])};
      }
    }

    @Override public void open(OpenContext context) { began = System.currentTimeMillis() / 1e3; }

    @Override public Double map(Long number) throws InterruptedException {
      double at = 0;
      long left = number;
      for (double[] one : rates) {
        long count = (long) (one[0] * one[1]);
        if (left < count) {
          at += left / one[1];
          break;
        }
        left -= count;
        at += one[0];
      }
      double wait = began + at - System.currentTimeMillis() / 1e3;
      if (wait > 0) Thread.sleep((long) (wait * 1e3), (int) (wait * 1e9 % 1e6));
      return began + at;
    }
  }

  /** Works so many nanoseconds on each record; it spins in the last of them, as a sleep may end late. */
  public static final class Work extends RichMapFunction<Double, String> {
    private final long nanos;
    private final long spin;

    public Work(long nanos, long spin) {
      this.nanos = nanos;
      this.spin = spin;
    }

    @Override public String map(Double created) {
      long end = System.nanoTime() + nanos;
      LockSupport.parkNanos(nanos - spin);
      while (System.nanoTime() < end) Thread.onSpinWait();
      return "created " + String.format("%.6f", created);
    }
  }

  /** Arguments: the rates, the number of records, a record's work, its spin, where the cluster is, configuration. */
  public static void main(String[] options) throws Exception {
    Configuration conf = new Configuration();
    for (String option : new ArrayList<>(List.of(options).subList(7, options.length))) {
      String[] pair = option.split("=", 2);
      conf.setString(pair[0], pair[1]);
    }
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createRemoteEnvironment(options[4], Integer.parseInt(options[5]), conf, options[6]);
    env.fromSequence(0, Long.parseLong(options[1]) - 1).setParallelism(1)
        .map(new Due(options[0])).setParallelism(1)
        .map(new Work(Long.parseLong(options[2]), Long.parseLong(options[3]))).setParallelism(1)
        .print().setParallelism(1);
    System.out.println(env.executeAsync("overload").getJobID());
    System.exit(0);
  }
}
