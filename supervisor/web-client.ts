/** Fetches what people name by its address, from where `egress` of the configuration lets the gateway connect to. */
import { lookup } from 'node:dns';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import { SvcError } from '../protocol/errors.ts';
import { Egress, type EgressSettings } from '../protocol/rules/egress.ts';

const REDIRECTS = 5;
const PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

/** `port` is the gateway's own, null while it has none. */
type WebClientOptions = { egress: EgressSettings; port(): number | null };

export class WebClient {
  readonly #options: WebClientOptions;

  constructor(options: WebClientOptions) {
    this.#options = options;
  }

  /**
   * The body of the answer to a GET of `address`, for its caller to read and to end; redirects are followed unless `follows` is false. Rejects with `BAD_REQUEST`
   * for what is no address of the web or is refused by `egress`, and with `FETCH_FAILED`.
   */
  async open(address: string, signal: AbortSignal, { follows = true } = {}): Promise<IncomingMessage> {
    const { egress, port } = this.#options;
    const rules = new Egress({ allow: egress.allow, deny: egress.deny, network: null, port: port() }, isOurs);
    let url = webAddress(address);
    for (let hops = 0; hops <= REDIRECTS; hops++) {
      const response = await get(url, rules, signal);
      const { statusCode = 0, headers } = response;
      if (statusCode === 200) return response;
      response.destroy();
      if (!follows || statusCode < 300 || statusCode > 399 || headers.location === undefined)
        throw failed(`${url.host} answered with status ${statusCode}`);
      url = webAddress(headers.location, url);
    }
    throw failed(`it leads on more than ${REDIRECTS} times`);
  }
}

function webAddress(text: string, base?: URL): URL {
  const url = URL.canParse(text, base?.href) ? new URL(text, base) : null;
  if (url !== null && Object.hasOwn(PORTS, url.protocol) && url.username === '' && url.password === '') return url;
  throw new SvcError('BAD_REQUEST', 'The address must begin with http:// or https://, without a name and a password.', {
    path: 'url',
  });
}

function get(url: URL, rules: Egress, signal: AbortSignal): Promise<IncomingMessage> {
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname;
  const port = url.port === '' ? (PORTS[url.protocol] as number) : Number(url.port);
  const refusal = rules.refusal({ host, address: isIP(host) === 0 ? null : host, port });
  if (refusal !== null) return Promise.reject(refused(host, refusal));
  /** A connection goes to one of the addresses that are left. */
  const checkedLookup: LookupFunction = (name, options, found) => {
    lookup(name, { ...options, all: true }, (error, addresses) => {
      if (error) return found(error, []);
      const reasons = addresses.map(({ address }) => rules.refusal({ host, address, port }));
      const open = addresses.filter((_, at) => reasons[at] === null);
      if (open.length === 0) return found(refused(host, reasons[0] ?? 'it has no address'), []);
      if (options.all === true) found(null, open);
      else found(null, open[0]?.address ?? '', open[0]?.family);
    });
  };
  return new Promise((resolve, reject) => {
    const ask = url.protocol === 'https:' ? requestHttps : requestHttp;
    const asked = ask(
      url,
      { signal, lookup: checkedLookup, agent: false, headers: { 'accept-encoding': 'identity' } },
      resolve,
    );
    asked.on('error', (error) => {
      const why = signal.aborted ? 'it took too long' : error.message;
      reject(error instanceof SvcError ? error : failed(why, error));
    });
    asked.end();
  });
}

/** Whether an address is this machine's: where the gateway may listen. */
function isOurs(address: string): boolean {
  if (address === '::1' || address === '::' || address === '0.0.0.0' || address.startsWith('127.')) return true;
  return Object.values(networkInterfaces()).some((own) => own?.some((one) => one.address === address));
}

function refused(host: string, why: string): SvcError {
  return new SvcError('BAD_REQUEST', `The gateway may not connect to ${host}: ${why}.`, { path: 'url' });
}

function failed(why: string, cause?: unknown): SvcError {
  return new SvcError('FETCH_FAILED', `The address cannot be fetched: ${why}.`, { path: 'url', cause });
}
