// The way to the server: one stream of events, made anew whenever it breaks, with a pause that grows.
//
// Read by fetch and not by EventSource: that hides the comments by which a quiet server shows that it lives, and why it was
// turned away. First the board, and then the stream from the event on that the board is up to: so nothing is between the two.

const PAUSE_MIN_MS = 500;
const PAUSE_MAX_MS = 10_000;
const SILENT_MS = 25_000; // The server says something every ten seconds.

export class Live {
  constructor({ onboard, onchanges, onfact, onlink, onend }) {
    Object.assign(this, { onboard, onchanges, onfact, onlink, onend });
    this.pause_ms = PAUSE_MIN_MS;
    this.lost_at = null;
    this.ended = false;
    this.waking = null;
    this.stream = null;
    addEventListener("online", () => this.now());
    document.addEventListener("visibilitychange", () => document.hidden || this.now());
    setInterval(() => this.#watch(), 1000);
  }

  async run() {
    while (!this.ended) {
      let why = "";
      try {
        await this.#once();
      } catch (error) {
        why = error.message;
      }
      if (this.ended) return;
      this.lost_at ??= Date.now();
      const pause_ms = this.pause_ms * (0.75 + Math.random() / 2); // Many pages lose one server at the same moment.
      this.next_at = Date.now() + pause_ms;
      this.pause_ms = Math.min(PAUSE_MAX_MS, this.pause_ms * 2);
      this.onlink({ ok: false, lost_at: this.lost_at, next_at: this.next_at, why });
      await new Promise((resolve) => {
        this.waking = resolve;
        setTimeout(resolve, pause_ms);
      });
      this.waking = null;
    }
  }

  now() {
    if (this.waking === null) return;
    this.pause_ms = PAUSE_MIN_MS;
    this.waking();
  }

  async #once() {
    this.stream = new AbortController();
    const signal = this.stream.signal;
    this.heard_at = Date.now();
    const last = await this.board(signal);
    const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
    const answer = await fetch("v1/events", { signal, cache: "no-store", headers });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      this.lost_at = null;
      this.pause_ms = PAUSE_MIN_MS;
      this.onlink({ ok: true });
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the server has closed the connection");
        this.heard_at = Date.now();
        const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) await this.#event(block, signal);
        if (this.ended) return;
      }
    } finally {
      this.stream.abort();
    }
  }

  // Returns which event the board is up to.
  async board(signal) {
    const answer = await fetch("v1/board", { signal, credentials: "same-origin", mode: "cors" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    this.onboard(await answer.json());
    return answer.headers.get("Tenure-Event-Id");
  }

  async #event(block, signal) {
    let kind = "message";
    const data = [];
    for (const line of block.split("\n")) {
      if (line.startsWith("event:")) kind = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    }
    if (kind === "fact") this.onfact(JSON.parse(data.join("\n")));
    else if (kind === "missed") await this.board(signal);
    else if (kind === "board" && !this.onchanges(JSON.parse(data.join("\n")))) await this.board(signal);
    else if (kind === "end") {
      this.ended = true;
      this.onend(JSON.parse(data.join("\n")));
    }
  }

  #watch() {
    // A connection whose other end has gone to sleep looks like a quiet one.
    if (this.lost_at === null && this.stream !== null && Date.now() - this.heard_at > SILENT_MS) this.stream.abort();
  }
}
