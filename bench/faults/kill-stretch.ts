/** The rounds of the `kill` campaign on one data directory. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { compareIdentity } from '../../storage/process-identity.ts';
import { makeGateway, type TestGateway } from '../../test/support/gateway.ts';
import type { CampaignContext } from './campaign.ts';
import { Crowd, eventually, type Span } from './crowd.ts';
import { HANG_MS } from './ledger.ts';
import { type Child, childrenOf } from './processes.ts';
import type { Random } from './random.ts';
import type { Tally } from './tally.ts';
import { pause, within } from './waiting.ts';

/** `supervisor twice`: the one that takes over is killed while it starts. */
const VICTIMS = [
  'writer',
  'host',
  'supervisor',
  'writer and host',
  'writer and supervisor',
  'host and supervisor',
  'supervisor twice',
  'all',
] as const;
type Victim = (typeof VICTIMS)[number];

/** A role that dies more often than this within the gateway's restart window is given up or isolated, as it should be. */
const DEATHS_IN_A_WINDOW = LIMITS.restartIntensity - 1;

export class KillStretch {
  readonly #context: CampaignContext;
  readonly #tally: Tally;
  readonly #first: number;
  readonly #last: number;
  readonly #random: Random;
  readonly #gateway: TestGateway;
  readonly #remove: () => Promise<void>;
  /** Where the gateway puts the folder of its sockets. */
  readonly #tmp: string;
  readonly #outages: Span[] = [];
  /** When a process died, of those the daemon that runs may count against a role. */
  readonly #deaths: { role: Child['role']; at: number; daemon: number }[] = [];

  /** Rounds number `first` to `last`. */
  constructor(context: CampaignContext, tally: Tally, first: number, last: number) {
    this.#context = context;
    this.#tally = tally;
    this.#first = first;
    this.#last = last;
    this.#random = context.random.fork();
    this.#tmp = join(context.newFolder(), 't');
    mkdirSync(this.#tmp);
    const { gateway, remove } = makeGateway({ config: { handlerHosts: 2 }, env: { TMPDIR: this.#tmp } });
    this.#gateway = gateway;
    this.#remove = remove;
  }

  /** False when the gateway did not come back, so that there is no use in going on. */
  async run(): Promise<boolean> {
    await this.#gateway.start();
    const crowd = await Crowd.enter(this.#gateway, this.#random.fork(), { writers: 6, retriers: 3, readers: 2 });
    let healthy = true;
    for (let round = this.#first; healthy && round <= this.#last; round++) {
      healthy = await this.#round(`round ${round}`, crowd);
      if (round % 10 === 0) this.#context.progress(`round ${round} of ${this.#last}`);
    }
    const where = `rounds ${this.#first} to ${this.#last}`;
    const deaths = this.#deaths.map(({ at }) => at);
    const verdict = await crowd.leave({ outages: this.#outages, deaths, slow: [] });
    this.#tally.violated(where, verdict.violations);
    this.#tally.addCrowd(crowd, verdict.lost);
    this.#tally.violated(where, await this.#leftovers());
    this.#context.progress(`${where}: ${this.#tally.violations.length} violations so far`);
    if (healthy) await this.#remove();
    else await this.#gateway.kill();
    return healthy;
  }

  async #round(name: string, crowd: Crowd): Promise<boolean> {
    const victim = this.#chooseVictim();
    const where = `${name} (${victim})`;
    const stuck = await within(HANG_MS, crowd.load.more(this.#random.between(5, 40)));
    if (stuck === 'late') return this.#giveUp(where, 'nothing was acknowledged before the kill.');
    await pause(this.#random.between(0, 30));
    const at = performance.now();
    try {
      await this.#strike(where, victim);
    } catch (error) {
      return this.#giveUp(where, (error as Error).message);
    }
    if ((await within(HANG_MS, crowd.load.healed(at))) === 'late')
      return this.#giveUp(where, 'not every app works again.');
    this.#tally.measured(`${victim} killed, until every app acknowledges again`, performance.now() - at);
    this.#tally.add('rounds', 1);
    return true;
  }

  #giveUp(where: string, what: string): false {
    this.#tally.violated(where, [what, `the daemon's last words: ${this.#gateway.log.slice(-2000)}`]);
    return false;
  }

  #chooseVictim(): Victim {
    const since = performance.now() - LIMITS.restartWindowMs - 1000;
    const often = (role: Child['role']) =>
      this.#deaths.filter((one) => one.role === role && one.at > since && one.daemon === this.#gateway.pid).length >=
      DEATHS_IN_A_WINDOW;
    const spared = (['writer', 'host'] as const).filter(often);
    return this.#random.pick(
      VICTIMS.filter((victim) => victim.includes('supervisor') || !spared.some((role) => victim.includes(role))),
    );
  }

  async #strike(where: string, victim: Victim): Promise<void> {
    const children = childrenOf(this.#gateway.pid);
    const writer = children.filter(({ role }) => role === 'writer');
    const host = children.filter(({ role }) => role === 'host');
    const struck = [
      ...(victim.includes('writer') ? writer : []),
      ...(victim.includes('host') && host.length > 0 ? [this.#random.pick(host)] : []),
      ...(victim === 'all' ? children : []),
    ];
    for (const child of struck) this.#end(child);
    if (!victim.includes('supervisor') && victim !== 'all') return;
    // Sometimes late enough for the replacement of a child to be under way.
    if (struck.length > 0 && victim !== 'all') await pause(this.#random.pick([0, 0, this.#random.between(0, 150)]));
    await this.#killDaemon(where, victim === 'supervisor twice');
  }

  #end({ pid, role }: Child): void {
    this.#deaths.push({ role, at: performance.now(), daemon: this.#gateway.pid });
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It was ending already.
    }
  }

  /** Kills the supervisor and starts another, as a service manager does. */
  async #killDaemon(where: string, twice: boolean): Promise<void> {
    const outage: Span = { from: performance.now(), to: Number.POSITIVE_INFINITY };
    this.#outages.push(outage);
    // It stands still for the roll call, so that none of its processes is missed.
    process.kill(this.#gateway.pid, 'SIGSTOP');
    const family = childrenOf(this.#gateway.pid);
    this.#deaths.push({ role: 'other', at: performance.now(), daemon: this.#gateway.pid });
    await this.#gateway.kill();
    if (twice) {
      const starting = this.#gateway.start().catch(() => {});
      await pause(this.#random.between(0, 250));
      await this.#gateway.kill();
      await starting;
    }
    const startedAt = performance.now();
    await this.#gateway.start();
    outage.to = performance.now();
    this.#tally.measured('daemon started after a kill, until ready', outage.to - startedAt);
    const orphans = family.filter((child) => compareIdentity(child) === 'same');
    for (const { role, pid } of orphans)
      this.#tally.violated(where, [`a ${role} (pid ${pid}) of the dead daemon runs beside the new one.`]);
  }

  /** What the daemons that were killed left on the disk, once the last one has had the time to clear it away. */
  async #leftovers(): Promise<string[]> {
    const sockets = () => readdirSync(this.#tmp);
    const temporary = () =>
      readdirSync(this.#gateway.dataDir, { recursive: true, encoding: 'utf8' }).filter((name) =>
        /\.tmp$|^tmp\/./.test(name),
      );
    await eventually(5000, () => sockets().length <= 1 && temporary().length === 0);
    return [
      ...(sockets().length > 1 ? [`${sockets().length} folders of sockets are left, of one daemon.`] : []),
      ...temporary().map((name) => `the temporary file ${name} is left in the data directory.`),
    ];
  }
}
