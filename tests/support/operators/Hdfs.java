import java.io.File;
import java.io.FileWriter;
import java.io.Writer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with one data node in one process. Argument: its folder, in which a file `uri` says that it is up. */
public class Hdfs {
  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    Configuration given = new Configuration();
    given.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(folder, "data").getPath());
    given.setBoolean("dfs.permissions.enabled", false);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(given).numDataNodes(1).build();
    cluster.waitActive();
    try (Writer file = new FileWriter(new File(folder, "uri.part"))) {
      file.write(cluster.getURI().toString());
    }
    new File(folder, "uri.part").renameTo(new File(folder, "uri"));
    Thread.sleep(Long.MAX_VALUE);
  }
}
