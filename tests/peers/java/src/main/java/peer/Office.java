package peer;

/** What a peer contends for, once. Taken and left by the same thread, as Curator's mutex wants it. */
interface Office {
    /** Stands, and returns when it leads. */
    void take() throws Exception;

    void leave() throws Exception;

    /** The path of our node in the queue; null before it is there. */
    String path();
}
