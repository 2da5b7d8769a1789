/** A gateway with one edge, and the proxies in front of it. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { TestGateway } from '../gateway.ts';
import { installed, type ProxyKind, type ProxyProcess, startProxy } from './proxies.ts';
import { type Outcome, rowsOf, runVector, type Target } from './run-vector.ts';
import { VECTORS, type Vector } from './vectors.ts';
import { WITNESS, witnessArchive } from './witness.ts';

const DIRECT_AT_ONCE = 8;
const PROXIES: readonly ProxyKind[] = ['nginx', 'haproxy'];

/** Proxies that this machine does not have. */
export function missingProxies(): ProxyKind[] {
  return PROXIES.filter((kind) => installed(kind) === null);
}

export class Scene {
  readonly gateway: TestGateway;
  /** Every way to this gateway on this machine; the first is the direct one. */
  readonly targets: readonly Target[];
  readonly #proxies: ProxyProcess[];

  private constructor(gateway: TestGateway, targets: Target[], proxies: ProxyProcess[]) {
    this.gateway = gateway;
    this.targets = targets;
    this.#proxies = proxies;
  }

  /** Starts a gateway. `folder` must be empty and outlive the scene. */
  static async open(edge: 'uws' | 'node', folder: string): Promise<Scene> {
    const gateway = new TestGateway(join(folder, 'data'), ['--edge', edge, '--store', 'tarball']);
    await gateway.start();
    return await Scene.before(gateway, edge, folder);
  }

  /** Puts the proxies before a gateway that runs, which ends with the scene. */
  static async before(gateway: TestGateway, edge: 'uws' | 'node', folder: string): Promise<Scene> {
    const proxies: ProxyProcess[] = [];
    try {
      await gateway.install(WITNESS, witnessArchive());
      const { token } = gateway;
      const { port } = gateway;
      const targets: Target[] = [{ edge, way: 'direct', port, token }];
      for (const kind of PROXIES.filter((one) => installed(one) !== null)) {
        const place = join(folder, kind);
        mkdirSync(place);
        const proxy = await startProxy(kind, port, place);
        proxies.push(proxy);
        targets.push({ edge, way: kind, port: proxy.ports.default, token });
        targets.push({ edge, way: `${kind} lenient`, port: proxy.ports.lenient, token });
      }
      return new Scene(gateway, targets, proxies);
    } catch (error) {
      await Promise.all([...proxies.map((proxy) => proxy.stop()), gateway.stop()]);
      throw error;
    }
  }

  /** Sends every vector to one target: behind a proxy one after the other, to know which one disturbed others. */
  async runAll(target: Target): Promise<{ seen: Map<Vector, string>; violations: string[] }> {
    const outcomes = new Map<Vector, Outcome>();
    const queue = [...VECTORS];
    const work = async () => {
      for (let vector = queue.shift(); vector !== undefined; vector = queue.shift()) {
        const sender = target.isStranger ? 'stranger' : 'owner';
        const key = `${target.way}, ${sender}, ${vector.kind}, ${vector.name},`;
        outcomes.set(vector, await runVector(target, vector, key));
      }
    };
    await Promise.all(Array.from({ length: target.way === 'direct' ? DIRECT_AT_ONCE : 1 }, work));
    const rows = await rowsOf(this.targets[0] as Target);
    const violations: string[] = [];
    for (const [{ kind, name }, outcome] of outcomes) {
      const ran = [...outcome.forbidden].filter(([key]) => rows.has(key)).map(([, meaning]) => meaning);
      for (const what of [...outcome.violations, ...ran]) {
        violations.push(`${target.edge}, ${target.way}: ${kind}, ${name}, ${what}`);
      }
    }
    return { seen: new Map([...outcomes].map(([vector, { seen }]) => [vector, seen])), violations };
  }

  async close(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.stop()));
    await this.gateway.stop();
  }
}
