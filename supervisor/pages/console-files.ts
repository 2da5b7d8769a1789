/** The files of the gateway's own page, the console at `/svc/`: read once, served from memory. */
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import type { Exchange } from '../edge/edge.ts';
import type { Place } from '../http/access/places.ts';
import { answerError } from '../http/answers.ts';
import { type OwnFile, openOwnFile, serveOwnFile } from '../http/assets.ts';
import { consoleFile } from '../tree/entry-points.ts';
import { pagePolicy } from './pages.ts';

const TYPES = {
  'index.html': 'text/html; charset=utf-8',
  'console.js': 'text/javascript; charset=utf-8',
  'console.css': 'text/css; charset=utf-8',
  'view.js': 'text/javascript; charset=utf-8',
  'session.js': 'text/javascript; charset=utf-8',
  'automations.js': 'text/javascript; charset=utf-8',
  'runs.js': 'text/javascript; charset=utf-8',
  'automations.css': 'text/css; charset=utf-8',
};

/** Parts of the console's script and style, by the names under which they are asked for. */
const PARTS = ['view.js', 'session.js', 'automations.js', 'runs.js', 'automations.css'] as const;

export class ConsoleFiles {
  readonly #log: Logger;
  readonly #files = new Map<string, Promise<OwnFile>>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Throws `NOT_FOUND` for what is no part of the console. */
  servePart(exchange: Exchange, place: Place, name: string): void {
    const part = PARTS.find((one) => one === name);
    if (!part) throw new SvcError('NOT_FOUND', 'The console has no such file.');
    this.serve(exchange, place, part);
  }

  serve(exchange: Exchange, place: Place, name: keyof typeof TYPES): void {
    const fail = (error: unknown) => answerError(exchange, error, this.#log, pagePolicy(place));
    let file = this.#files.get(name);
    if (!file) {
      file = openOwnFile(consoleFile(name), TYPES[name]);
      this.#files.set(name, file);
    }
    file.then(
      (ready) => serveOwnFile(exchange, ready, pagePolicy(place), fail),
      (error: unknown) => {
        this.#files.delete(name);
        fail(error);
      },
    );
  }
}
