package peer;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;

/** Curator's LeaderLatch. */
final class Latch implements Office {
    private final LeaderLatch latch;

    Latch(CuratorFramework client, String path, String value) {
        latch = new LeaderLatch(client, path, value);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                // take() tells of it: it has waited for nothing else.
            }

            @Override
            public void notLeader() {
                Lines.say("lost");
            }
        });
    }

    @Override
    public void take() throws Exception {
        latch.start();
        latch.await();
    }

    @Override
    public void leave() throws Exception {
        latch.close();
    }

    @Override
    public String path() {
        return latch.getOurPath();
    }
}
