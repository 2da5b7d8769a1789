/** workerd: a request for `/<app>/<operation>` goes to the Durable Object of the app, with SQLite, which holds its answer back until its writes are durable. */
import { DurableObject } from 'cloudflare:workers';
import { operationOf, SQL } from './notes.mjs';
import schema from './schema.sql';

export class Notes extends DurableObject {
  #notes;

  constructor(ctx, env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    // The object is made again when nobody has asked it for a while.
    if (sql.exec("SELECT 1 FROM sqlite_schema WHERE name = 'notes'").toArray().length === 0) sql.exec(schema);
    this.#notes = {
      get: ({ id }) => sql.exec(SQL.get, id).toArray()[0] ?? null,
      list: ({ after, limit }) => sql.exec(SQL.list, after, limit).toArray(),
      put: ({ id, title, body }) => {
        const updatedAt = Date.now();
        sql.exec(SQL.put, id, title, body, updatedAt);
        return { id, updatedAt };
      },
    };
  }

  async fetch(request) {
    return Response.json({ data: operationOf(this.#notes, request.url)(await request.json()) });
  }
}

// biome-ignore lint/style/noDefaultExport: workerd calls the default export
export default {
  fetch: (request, env) =>
    env.NOTES.get(env.NOTES.idFromName(new URL(request.url).pathname.split('/')[1])).fetch(request),
};
