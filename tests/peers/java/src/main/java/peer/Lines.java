package peer;

import java.util.Arrays;
import java.util.StringJoiner;

/** Events as JSON lines on stdout, each with the time at which it happened. */
final class Lines {
    private Lines() {}

    static void say(String event, Object... namesAndValues) {
        // On Linux nanoTime() is CLOCK_MONOTONIC, which all processes of a machine share.
        sayAt(System.nanoTime(), event, namesAndValues);
    }

    static void sayAt(long atNs, String event, Object... namesAndValues) {
        StringJoiner line = new StringJoiner(", ", "{", "}");
        line.add("\"event\": " + quoted(event)).add("\"at_ns\": " + atNs);
        for (int i = 0; i < namesAndValues.length; i += 2) {
            line.add(quoted((String) namesAndValues[i]) + ": " + json(namesAndValues[i + 1]));
        }
        synchronized (Lines.class) {
            System.out.println(line);
            if (System.out.checkError()) {
                Runtime.getRuntime().halt(1); // Nobody listens any more.
            }
        }
    }

    /** Ends the program with what went wrong. */
    static void fail(Throwable error) {
        say("failed", "text", error.toString());
        Runtime.getRuntime().halt(1);
    }

    private static String json(Object value) {
        if (value instanceof String text) {
            return quoted(text);
        }
        return value instanceof long[] numbers ? Arrays.toString(numbers) : value.toString();
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c < ' ' || c == '"' || c == '\\' || c > '~' ? String.format("\\u%04x", (int) c) : c);
        }
        return out.append('"').toString();
    }
}
