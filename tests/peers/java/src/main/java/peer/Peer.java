package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;

/**
 * A program on Curator that contends as its commands say. It stands for every Java program that a tenure candidate shares
 * an election or a lock with, and nothing of tenure is in it. Arguments: latch|mutex, endpoints, path, session timeout in
 * seconds. Commands and events are those of the Go peer: one line each, the end of stdin ends the program.
 */
public final class Peer {
    private static final int CONNECT_MS = 10_000;
    private static final int RETRY_MS = 100;
    private static final long LOOK_MS = 2; // At what is in memory.
    private static final long ASK_MS = 20; // The engine.

    private final CuratorFramework client;
    private final String kind;
    private final String path;
    private Standing standing;

    private Peer(String kind, String endpoints, String path, int sessionMs) throws Exception {
        if (!kind.equals("latch") && !kind.equals("mutex")) {
            throw new IllegalArgumentException(kind + " is neither latch nor mutex");
        }
        this.kind = kind;
        this.path = path;
        client = CuratorFrameworkFactory.newClient(endpoints, sessionMs, CONNECT_MS, new RetryOneTime(RETRY_MS));
        client.start();
        client.blockUntilConnected();
    }

    private Office office(String value) {
        return kind.equals("latch") ? new Latch(client, path, value) : new Mutex(client, path, value);
    }

    /** One campaign, and what it wins: a thread of its own from the first request to the last. */
    private final class Standing extends Thread {
        private final Office office;
        private final CountDownLatch resigned = new CountDownLatch(1);

        Standing(String value) {
            office = office(value);
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            Thread told = daemon(this::tellOfTheQueue);
            try {
                office.take();
                long atNs = System.nanoTime();
                told.join(); // "standing" comes first.
                Lines.sayAt(atNs, "leading", "token", client.checkExists().forPath(office.path()).getCzxid());
                resigned.await();
                Lines.say("leaving");
                office.leave();
                Lines.say("left");
            } catch (Exception error) {
                Lines.fail(error);
            }
        }

        private void tellOfTheQueue() throws InterruptedException {
            while (office.path() == null) { // Curator tells nobody when the node is there.
                Thread.sleep(LOOK_MS);
            }
            Lines.say("standing");
        }

        void resign() throws InterruptedException {
            resigned.countDown();
            join();
        }
    }

    private void obey(String command, String argument) throws Exception {
        switch (command) {
            case "campaign" -> standing = new Standing(argument);
            case "resign" -> standing.resign();
            case "observe" -> daemon(this::observe);
            case "time" -> time(Integer.parseInt(argument));
            default -> throw new IllegalArgumentException(command + " is no command");
        }
    }

    /** Says whom Curator sees in office, now and at every change. */
    private void observe() throws Exception {
        Looking looking = kind.equals("latch") ? latchLeader() : mutexHolder();
        String seen = "";
        while (true) {
            String leader = looking.leader();
            if (!leader.equals(seen)) {
                seen = leader;
                Lines.say("observed", "value", leader);
            }
            Thread.sleep(ASK_MS);
        }
    }

    /** A look at who is in office: the value of its holder, or nothing. */
    private interface Looking {
        String value() throws Exception;

        default String leader() throws Exception {
            try {
                return value();
            } catch (KeeperException.NoNodeException nobodyYet) { // Or it has left between two requests.
                return "";
            }
        }
    }

    private Looking latchLeader() {
        LeaderLatch latch = new LeaderLatch(client, path);
        return () -> latch.getLeader().getId();
    }

    /** A mutex tells the nodes of all who take part, in their order: the first of them holds it. */
    private Looking mutexHolder() {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        return () -> {
            Iterator<String> nodes = mutex.getParticipantNodes().iterator();
            return nodes.hasNext() ? new String(client.getData().forPath(nodes.next()), StandardCharsets.UTF_8) : "";
        };
    }

    /** Takes and leaves the office, and says how long each pair took. */
    private void time(int count) throws Exception {
        long[] tookNs = new long[count];
        for (int i = 0; i < count; i++) {
            long began = System.nanoTime();
            Office office = office("timed");
            office.take();
            office.leave();
            tookNs[i] = System.nanoTime() - began;
        }
        Lines.say("timed", "took_ns", tookNs);
    }

    /** What may fail, in which case the program ends. */
    private interface Act {
        void run() throws Exception;
    }

    private static Thread daemon(Act act) {
        Thread thread = new Thread(() -> {
            try {
                act.run();
            } catch (Exception error) {
                Lines.fail(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) {
        try {
            Peer peer = new Peer(arguments[0], arguments[1], arguments[2], 1000 * Integer.parseInt(arguments[3]));
            Lines.say("ready");
            BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String[] words = line.split(" ", 2);
                peer.obey(words[0], words.length > 1 ? words[1] : "");
            }
        } catch (Exception error) {
            Lines.fail(error);
        }
        Runtime.getRuntime().halt(0); // As a crash would: nothing is released on the way out.
    }
}
