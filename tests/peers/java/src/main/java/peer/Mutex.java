package peer;

import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;

/** Curator's InterProcessMutex. Its own driver of the queue only tells us that the node is there, and what it is called. */
final class Mutex implements Office {
    private final InterProcessMutex mutex;
    private volatile String path;

    Mutex(CuratorFramework client, String parent, String value) {
        mutex = new InterProcessMutex(client, parent, new StandardLockInternalsDriver() {
            @Override
            public String createsTheLock(CuratorFramework through, String wanted, byte[] none) throws Exception {
                path = super.createsTheLock(through, wanted, value.getBytes(StandardCharsets.UTF_8));
                return path;
            }
        });
    }

    @Override
    public void take() throws Exception {
        mutex.acquire();
    }

    @Override
    public void leave() throws Exception {
        mutex.release();
    }

    @Override
    public String path() {
        return path;
    }
}
