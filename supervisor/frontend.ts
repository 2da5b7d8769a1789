/** The first thing every request meets: route, cross-origin rules, access check, and errors in the one shape. */
import type { Logger } from 'pino';
import { SvcError } from '../protocol/errors.ts';
import { answerError } from './answers.ts';
import type { Access } from './auth.ts';
import { corsHeaders, HeaderedExchange, preflightHeaders } from './cors.ts';
import type { Exchange } from './edge/edge.ts';
import { pagePolicy } from './pages.ts';
import type { Match, Router } from './router.ts';
import { stoppingError } from './tree/refusals.ts';

/** Addresses of apps' pages, those of drafts too: their errors carry the pages' security headers too. */
const PAGE_PATH = /^\/svc\/(?:_draft\/[^/]+\/)?[^_/][^/]*(?:\/|$)/;

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
    const { router, access, corsOrigins } = this.#options;
    const cors = corsOrigins.length > 0 ? corsHeaders(plain, corsOrigins) : null;
    const exchange = cors ? new HeaderedExchange(plain, cors) : plain;
    try {
      if (this.draining) throw stoppingError();
      const match = router.match(exchange.method, exchange.path);
      if (exchange.method === 'OPTIONS') {
        this.#answerOptions(exchange, match, cors !== null);
        return;
      }
      const isOpen = 'route' in match ? match.route.open : match.open;
      const denied = isOpen ? null : access?.check(exchange);
      if (denied) {
        if (denied.code === 'UNAUTHORIZED' && isPageVisit(exchange)) sendToSignIn(exchange);
        else throw denied;
        return;
      }
      if ('error' in match) throw match.error;
      const done = match.route.handle(exchange, match.params);
      if (done instanceof Promise) done.catch((error: unknown) => this.#fail(exchange, error));
    } catch (error) {
      this.#fail(exchange, error);
    }
  };

  #fail(exchange: Exchange, error: unknown): void {
    answerError(exchange, error, this.#options.log, PAGE_PATH.test(exchange.path) ? pagePolicy() : {});
  }

  #answerOptions(exchange: Exchange, match: Match, crossOrigin: boolean): void {
    const allow = 'error' in match ? match.error.headers?.allow : undefined;
    if (allow === undefined)
      throw 'error' in match ? match.error : new SvcError('NOT_FOUND', 'Nothing is served at this address.');
    exchange.send(204, { allow, ...(crossOrigin ? preflightHeaders(allow) : {}) }, '');
  }
}

/** A person who opens an app's page in a tab without being signed in; programs do not send these headers. */
function isPageVisit(exchange: Exchange): boolean {
  return (
    exchange.method === 'GET' &&
    PAGE_PATH.test(exchange.path) &&
    exchange.header('sec-fetch-mode') === 'navigate' &&
    exchange.header('sec-fetch-dest') === 'document'
  );
}

/** To the console, which asks for the token and goes on to the app. */
function sendToSignIn(exchange: Exchange): void {
  const [, , first = '', session, app] = exchange.path.split('/');
  exchange.send(
    303,
    {
      ...pagePolicy(),
      location: `/svc/#open=${first === '_draft' ? `${first}/${session}/${app}` : first}`,
      'cache-control': 'no-store',
    },
    '',
  );
}
