/** SIGSTOP of each process for a while under load: late replies are thrown away, and nobody's pause is another's death. */
import { compareIdentity } from '../../storage/processes/process-identity.ts';
import { makeGateway, type TestGateway } from '../../testing/gateway.ts';
import { type Child, childrenOf } from '../../testing/processes.ts';
import { eventually, pause, within } from '../../testing/waiting.ts';
import { HANG_MS } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, Tally } from './campaign.ts';
import { Crowd, type Span } from './crowd.ts';
import { signal } from './killer.ts';

const VICTIMS = ['writer', 'host', 'supervisor'] as const;
type Victim = (typeof VICTIMS)[number];
/** Stopped for `ms`; null: until the gateway has replaced it. */
type Stop = { victim: Victim; ms: number | null };

const second = (victim: Victim): Stop => ({ victim, ms: 1000 });
const tenSeconds = (victim: Victim): Stop => ({ victim, ms: 10_000 });

/** Calls may take far longer than a stop, or far shorter: then they have been answered when the late reply comes. */
const TIMES = { patient: {}, 'timing out': { actionTimeoutMs: 3000, queryTimeoutMs: 2000 } } as const;
type Patience = keyof typeof TIMES;

const FULL: [Patience, Stop[]][] = [
  ['patient', [...VICTIMS.map(second), ...VICTIMS.map(tenSeconds)]],
  ['timing out', [...VICTIMS.map(second), ...VICTIMS.map(tenSeconds)]],
  [
    'patient',
    [...VICTIMS.map(second), ...VICTIMS.map(tenSeconds), { victim: 'writer', ms: null }, { victim: 'host', ms: null }],
  ],
];
const SMOKE: [Patience, Stop[]][] = [['timing out', [...VICTIMS.map(second), tenSeconds('writer')]]];

export const stop: Campaign = {
  name: 'stop',
  question:
    'Does a process that stands still for a while cost an acknowledged write, an answer, a stream, or a healthy process?',
  async run(context) {
    const tally = new Tally();
    for (const [patience, stops] of context.extent === 'smoke' ? SMOKE : FULL)
      await new StopStretch(context, tally, patience).run(stops);
    return { figures: tally.figures(), violations: tally.violations, skipped: [] };
  },
};

/** The stops on one gateway. */
class StopStretch {
  readonly #context: CampaignContext;
  readonly #tally: Tally;
  readonly #patience: Patience;
  readonly #gateway: TestGateway;
  readonly #remove: () => Promise<void>;
  /** When calls may have timed out, or died with a process that was replaced. */
  readonly #slow: Span[] = [];

  constructor(context: CampaignContext, tally: Tally, patience: Patience) {
    this.#context = context;
    this.#tally = tally;
    this.#patience = patience;
    const { gateway, remove } = makeGateway({ config: { handlerHosts: 1, ...TIMES[patience] } });
    this.#gateway = gateway;
    this.#remove = remove;
  }

  async run(stops: Stop[]): Promise<void> {
    await this.#gateway.start();
    const options = { writers: 6, retriers: 2, readers: 2 };
    const crowd = await Crowd.enter(this.#gateway, this.#context.random.fork(), options);
    for (const one of stops) await this.#round(one, crowd);
    const verdict = await crowd.leave({ outages: [], deaths: [], slow: this.#slow });
    this.#tally.violated(`calls ${this.#patience}`, verdict.violations);
    this.#tally.addCrowd(crowd, verdict.lost);
    await this.#remove();
  }

  async #round({ victim, ms }: Stop, crowd: Crowd): Promise<void> {
    const length = ms === null ? 'until replaced' : `for ${ms / 1000} s`;
    const where = `${victim} stopped ${length}, calls ${this.#patience}`;
    this.#context.progress(where);
    if ((await within(HANG_MS, crowd.load.more(this.#context.random.between(20, 60)))) === 'late')
      this.#tally.violated(where, ['nothing was acknowledged before the stop.']);
    await pause(this.#context.random.between(0, 30));
    const family = childrenOf(this.#gateway.pid);
    const before = await this.#threadsEnded();
    const stopped = victim === 'supervisor' ? null : (family.find(({ role }) => role === victim) as Child);
    const pid = stopped?.pid ?? this.#gateway.pid;
    const slow: Span = { from: performance.now(), to: Number.POSITIVE_INFINITY };
    // Nobody need notice more of a second than that it passed, unless it is a third of what they have.
    if (ms !== 1000 || this.#patience === 'timing out') this.#slow.push(slow);
    process.kill(pid, 'SIGSTOP');
    if (ms !== null) await pause(ms);
    else await this.#replaced(stopped as Child);
    // Ten seconds are the limit of the heartbeat: it may have been ended at this very moment, or not.
    signal(pid, 'SIGCONT');
    const at = performance.now();
    if ((await within(HANG_MS, crowd.load.healed(at))) === 'late')
      this.#tally.violated(where, ['not every app worked again.', this.#gateway.log.slice(-2000)]);
    this.#tally.measured(
      `${victim} stopped ${length}, from its end until every app acknowledges`,
      performance.now() - at,
    );
    slow.to = performance.now();
    // Verdicts on what happened in the pause are given within some seconds.
    if (victim === 'supervisor') await pause(3000);
    const ended = family.filter((child) => compareIdentity(child) !== 'same');
    const threads = (await this.#threadsEnded()) - before;
    this.#tally.add(`processes replaced, ${victim} stopped ${length}`, ended.length);
    const healthy = ended.filter((child) => child !== stopped || (ms !== null && ms <= 1000));
    for (const { role } of healthy) this.#tally.violated(where, [`a healthy ${role} was ended.`]);
    if (victim === 'supervisor' && threads > 0)
      this.#tally.violated(where, [`${threads} healthy threads were ended.`, this.#gateway.log.slice(-2000)]);
  }

  async #replaced(child: Child): Promise<void> {
    if (await eventually(HANG_MS, () => compareIdentity(child) !== 'same')) return;
    this.#tally.violated(`a stopped ${child.role}`, [`was not replaced within ${HANG_MS} ms.`]);
  }

  /** Threads that ended so far, whatever the reason. */
  async #threadsEnded(): Promise<number> {
    const { counters } = await this.#gateway.system();
    return Object.values(counters.retired as Record<string, number>).reduce((sum, count) => sum + count, 0);
  }
}
