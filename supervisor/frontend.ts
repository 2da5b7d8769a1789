/** The first thing every request meets: route, cross-origin rules, access check, and errors in the one shape. */
import type { Logger } from 'pino';
import { SvcError } from '../protocol/errors.ts';
import { answerError } from './answers.ts';
import type { Access } from './auth.ts';
import { corsHeaders, HeaderedExchange, preflightHeaders } from './cors.ts';
import type { Exchange } from './edge/edge.ts';
import type { Match, Router } from './router.ts';

export type FrontendOptions = {
  router: Router;
  /** Null when the embedding host owns authentication. */
  access: Access | null;
  corsOrigins: readonly string[];
  log: Logger;
};

export class Frontend {
  readonly #options: FrontendOptions;
  /** Set while the gateway stops: new requests are told to come back. */
  draining = false;

  constructor(options: FrontendOptions) {
    this.#options = options;
  }

  readonly handle = (plain: Exchange): void => {
    const { router, access, corsOrigins, log } = this.#options;
    const cors = corsOrigins.length > 0 ? corsHeaders(plain, corsOrigins) : null;
    const exchange = cors ? new HeaderedExchange(plain, cors) : plain;
    try {
      if (this.draining) {
        throw new SvcError('OVERLOADED', 'The gateway is stopping; try again in a moment.', {
          headers: { 'retry-after': '2' },
        });
      }
      const match = router.match(exchange.method, exchange.path);
      if (exchange.method === 'OPTIONS') {
        this.#answerOptions(exchange, match, cors !== null);
        return;
      }
      const denied = 'route' in match && match.route.open ? null : access?.check(exchange);
      if (denied) throw denied;
      if ('error' in match) throw match.error;
      const done = match.route.handle(exchange, match.params);
      if (done instanceof Promise) done.catch((error: unknown) => answerError(exchange, error, log));
    } catch (error) {
      answerError(exchange, error, log);
    }
  };

  #answerOptions(exchange: Exchange, match: Match, crossOrigin: boolean): void {
    const allow = 'error' in match ? match.error.headers?.allow : undefined;
    if (allow === undefined)
      throw 'error' in match ? match.error : new SvcError('NOT_FOUND', 'Nothing is served at this address.');
    exchange.send(204, { allow, ...(crossOrigin ? preflightHeaders(allow) : {}) }, '');
  }
}
