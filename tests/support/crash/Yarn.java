import java.io.File;
import java.io.FileOutputStream;
import java.io.FileWriter;
import java.io.OutputStream;
import java.io.Writer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** YARN with two node managers in one process. Argument: the folder for its configuration. */
public class Yarn {
  public static void main(String[] arguments) throws Exception {
    YarnConfiguration given = new YarnConfiguration();
    given.setInt("yarn.scheduler.minimum-allocation-mb", 256);
    given.setInt("yarn.nodemanager.resource.memory-mb", 8192);
    given.setInt("yarn.nodemanager.resource.cpu-vcores", 16);
    given.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    given.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    given.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.9");
    given.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,PATH,LANG,TZ");
    String queues = "yarn.scheduler.capacity.root.";
    given.set(queues + "queues", "default");
    given.set(queues + "capacity", "100");
    given.set(queues + "default.capacity", "100");
    given.set(queues + "default.maximum-capacity", "100");
    given.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.9");
    MiniYARNCluster cluster = new MiniYARNCluster("ridgeline", 2, 1, 1);
    cluster.init(given);
    cluster.start();
    Configuration made = cluster.getConfig();
    File folder = new File(arguments[0]);
    try (Writer file = new FileWriter(new File(folder, "core-site.xml"))) {
      file.write("<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>");
    }
    try (OutputStream file = new FileOutputStream(new File(folder, "yarn-site.part"))) {
      made.writeXml(file);
    }
    new File(folder, "yarn-site.part").renameTo(new File(folder, "yarn-site.xml"));
    Thread.sleep(Long.MAX_VALUE);
  }
}
