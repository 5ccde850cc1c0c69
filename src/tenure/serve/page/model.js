// The board as the server last told it. What changes is merged in, and who changed is remembered until it was drawn.

export class Model {
  constructor() {
    this.rows = new Map();
    this.head = null;
    this.revision = null;
    this.dirty = new Set();
    this.gone = new Set();
    this.ahead_ms = 0; // how far the server's clock is ahead of this one
  }

  // Now, on the server's clock: all times on the page are its times.
  now() {
    return Date.now() + this.ahead_ms;
  }

  replace(board) {
    this.ahead_ms = Date.parse(board.at) - Date.now();
    const { elections, ...head } = board;
    this.head = head;
    this.revision = board.revision;
    const known = new Set(elections.map((row) => row.election));
    for (const name of this.rows.keys()) if (!known.has(name)) this.#forget(name);
    for (const row of elections) {
      this.rows.set(row.election, row);
      this.dirty.add(row.election);
    }
  }

  // False: something in between is missing, and the whole board is needed.
  merge(changes) {
    if (this.revision === null || changes.since > this.revision) return false;
    if (changes.revision <= this.revision) return true; // It is in the board that was read.
    if (changes.since < this.revision) return false;
    this.ahead_ms = Math.max(this.ahead_ms, Date.parse(changes.at) - Date.now());
    const { elections, gone, since, ...head } = changes;
    Object.assign(this.head, head);
    this.revision = changes.revision;
    for (const name of gone) this.#forget(name);
    for (const { margins_added, ...news } of elections) {
      const row = this.rows.get(news.election) ?? { margins: [] };
      // Of a board that was read in between, some are known already.
      const fresh = margins_added === undefined ? 0 : Math.min(margins_added.length, news.renewals - (row.renewals ?? 0));
      if (fresh > 0) row.margins = [...row.margins, ...margins_added.slice(-fresh)].slice(-60);
      this.rows.set(news.election, Object.assign(row, news));
      this.dirty.add(news.election);
    }
    return true;
  }

  #forget(name) {
    this.rows.delete(name);
    this.dirty.delete(name);
    this.gone.add(name);
  }
}
