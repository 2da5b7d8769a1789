/** Joins network namespaces by a bridge of this machine, cuts the ways between them and makes them slow. Needs root and `ip`. */
import { execFileSync } from 'node:child_process';
import type { Place } from './postgres.ts';

/** Nobody's: a frame for it arrives nowhere. */
const NOBODY = '02:00:00:00:00:01';
/** What a slow place sends: two pages of an app in a second or so. */
const SLOW = ['rate', '128kbit', 'burst', '4kb', 'latency', '3s'];

const run = (program: 'ip' | 'tc', words: string): void => {
  execFileSync(program, words.split(' '), { stdio: ['ignore', 'ignore', 'pipe'] });
};
const ip = (words: string): void => run('ip', words);

/** Why none can be made here; null where one can. */
export function whyNoNetwork(): string | null {
  const name = `svc-try-${process.pid}`;
  try {
    ip(`netns add ${name}`);
    ip(`netns del ${name}`);
    return null;
  } catch (error) {
    return `network namespaces cannot be made here; they need Linux, root and the program ip (${(error as Error).message.trim().split('\n').at(-1)})`;
  }
}

export class Network {
  readonly #bridge = `svc${process.pid}`;
  /** Of this process: campaigns may run beside each other. */
  readonly #prefix = `10.203.${process.pid % 256}`;
  readonly #hosts = new Map<string, string>();
  readonly #cuts = new Set<string>();
  readonly #slow = new Set<string>();

  /** Neither the bridge nor its ends here have an address: browsers end their requests when one comes or goes. */
  constructor() {
    ip(`link add ${this.#bridge} type bridge`);
    ip(`link set ${this.#bridge} addrgenmode none up`);
    ip(`addr add ${this.#prefix}.1/32 dev lo`);
    ip(`route add ${this.#prefix}.0/24 dev ${this.#bridge} src ${this.#prefix}.1`);
    process.once('exit', () => this.close());
  }

  /** A new place with an address of its own, which this process and all places reach. */
  place(name: string, port: number): Place {
    const number = this.#hosts.size + 2;
    const [inside, outside] = [this.#space(name), `v${process.pid}-${number}`];
    const host = `${this.#prefix}.${number}`;
    this.#hosts.set(name, host);
    ip(`netns add ${inside}`);
    ip(`link add ${outside} type veth peer name eth0 netns ${inside}`);
    ip(`link set ${outside} master ${this.#bridge} addrgenmode none up`);
    ip(`-n ${inside} link set lo up`);
    ip(`-n ${inside} addr add ${host}/24 dev eth0`);
    ip(`-n ${inside} link set eth0 up`);
    return { host, port, within: ['nsenter', `--net=/run/netns/${inside}`] };
  }

  /** What `from` sends to `to` is lost from now on; the other way stays open. */
  cut(from: string, to: string): void {
    this.#cuts.add(`${from} ${to}`);
    ip(this.#wordsFor(from, to).cut);
  }

  /** The commands that lose what either of two places sends to the other, and that end this. */
  commands(one: string, other: string): { cut: string; mend: string } {
    const ways = [this.#wordsFor(one, other), this.#wordsFor(other, one)];
    const both = (what: 'cut' | 'mend') => ways.map((words) => `ip ${words[what]}`).join(' && ');
    return { cut: both('cut'), mend: both('mend') };
  }

  /** What this place sends, to all. */
  slow(name: string): void {
    this.#slow.add(name);
    run('tc', `-n ${this.#space(name)} qdisc replace dev eth0 root tbf ${SLOW.join(' ')}`);
  }

  mend(): void {
    for (const cut of this.#cuts) {
      const [from, to] = cut.split(' ') as [string, string];
      ip(this.#wordsFor(from, to).mend);
    }
    for (const name of this.#slow) run('tc', `-n ${this.#space(name)} qdisc del dev eth0 root`);
    this.#cuts.clear();
    this.#slow.clear();
  }

  /** Once more it does nothing. */
  close(): void {
    if (this.#hosts.size === 0) return;
    for (const name of this.#hosts.keys()) ip(`netns del ${this.#space(name)}`);
    this.#hosts.clear();
    ip(`link del ${this.#bridge}`);
    ip(`addr del ${this.#prefix}.1/32 dev lo`);
  }

  #wordsFor(from: string, to: string): { cut: string; mend: string } {
    const [at, host] = [`-n ${this.#space(from)} neigh`, this.#hosts.get(to)];
    return {
      cut: `${at} replace ${host} lladdr ${NOBODY} nud permanent dev eth0`,
      mend: `${at} del ${host} dev eth0`,
    };
  }

  #space(name: string): string {
    return `${this.#bridge}-${name}`;
  }
}
