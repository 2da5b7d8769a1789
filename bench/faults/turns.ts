/** SIGKILL of an agent, of the process of the agents and of the supervisor while people talk with agents. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { compareIdentity, type ProcessIdentity } from '../../storage/processes/process-identity.ts';
import { TAG_VARIABLE, taggedWith, tagOf } from '../../storage/processes/tagged.ts';
import { makeGateway, root, type TestGateway } from '../../testing/gateway.ts';
import { childrenOf } from '../../testing/processes.ts';
import type { Random } from '../../testing/random.ts';
import { pause, within } from '../../testing/waiting.ts';
import { HANG_MS } from '../../testing/write-ledger.ts';
import { type Campaign, type CampaignContext, Tally } from './campaign.ts';
import { eventually } from './crowd.ts';
import { Talkers } from './turns/talkers.ts';

const ROUNDS = { full: 100, smoke: 8 };
const WINDOWS = 4;
/** Until nothing is left of what was struck: what is asked to end first takes two steps of `agentEndMs`. */
const GONE_MS = 15_000;
const VICTIMS = ['agent', 'agents', 'supervisor', 'agents and supervisor', 'supervisor twice'] as const;
type Victim = (typeof VICTIMS)[number];

export const turns: Campaign = {
  name: 'turns',
  question:
    'Is every message that was accepted kept, does its turn run once and end once, and is no process of an agent left, when processes are killed?',
  async run(context) {
    if (process.platform !== 'linux')
      return { figures: [], violations: [], skipped: ['Processes are found through /proc, which is Linux only.'] };
    const stretch = new TurnsStretch(context, context.rounds ?? ROUNDS[context.extent]);
    await stretch.run();
    return { figures: stretch.tally.figures(), violations: stretch.tally.violations, skipped: [] };
  },
};

export class TurnsStretch {
  readonly tally = new Tally();
  readonly #context: CampaignContext;
  readonly #rounds: number;
  readonly #random: Random;
  readonly #gateway: TestGateway;
  readonly #remove: () => Promise<void>;
  /** When the process of the agents was killed, of the daemon that runs. */
  #deaths: number[] = [];

  constructor(context: CampaignContext, rounds: number) {
    this.#context = context;
    this.#rounds = rounds;
    this.#random = context.random.fork();
    const command = [process.execPath, join(root, 'testing/stub-agent.mjs'), '--keep', context.newFolder()];
    const config = { runners: { stub: { kind: 'acp', command } } };
    const { gateway, remove } = makeGateway({ config, examples: ['todos'] });
    this.#gateway = gateway;
    this.#remove = remove;
  }

  async run(): Promise<void> {
    const gateway = this.#gateway;
    await gateway.start();
    const talkers = new Talkers(gateway, WINDOWS, this.#random.fork());
    let healthy = true;
    for (let round = 1; healthy && round <= this.#rounds; round++) {
      healthy = await this.#round(round, talkers);
      if (round % 10 === 0) this.#context.progress(`round ${round} of ${this.#rounds}`);
    }
    await talkers.stop();
    this.tally.violated('afterwards', talkers.violations);
    this.tally.violated('afterwards', await talkers.verify());
    const left = this.#tagged();
    const code = await gateway.stop();
    if (code !== 0) this.tally.violated('the stop', [`it ended with code ${code}: ${gateway.log.slice(-500)}`]);
    await this.#gone('the stop', left);
    this.tally.violated('afterwards', talkers.verifyWrites());
    this.tally.add('messages accepted', talkers.accepted);
    for (const [outcome, count] of talkers.outcomes) this.tally.add(`turns that ended with: ${outcome}`, count);
    if (this.tally.violations.length === 0) await this.#remove();
  }

  async #round(round: number, talkers: Talkers): Promise<boolean> {
    const victim = this.#choose();
    const where = `round ${round} (${victim})`;
    if ((await within(HANG_MS, talkers.more(this.#random.between(1, 6)))) === 'late')
      return this.#giveUp(where, 'no turn ends well.');
    await pause(this.#random.between(0, 300));
    const at = performance.now();
    try {
      await this.#gone(where, await this.#strike(victim));
    } catch (error) {
      return this.#giveUp(where, (error as Error).message);
    }
    if ((await within(HANG_MS, talkers.more(1))) === 'late')
      return this.#giveUp(where, 'no turn ends well afterwards.');
    this.tally.measured(`${victim} killed, until a turn ends well`, performance.now() - at);
    this.tally.add('rounds', 1);
    return true;
  }

  /** A process that dies more often than this within its window is given up for a while, as it should be. */
  #choose(): Victim {
    const since = performance.now() - LIMITS.restartWindowMs - 1000;
    const often = this.#deaths.filter((at) => at > since).length >= LIMITS.restartIntensity - 1;
    return this.#random.pick(VICTIMS.filter((victim) => victim !== 'agents' || !often));
  }

  /** What must be gone after it. */
  async #strike(victim: Victim): Promise<ProcessIdentity[]> {
    const gateway = this.#gateway;
    const agents = childrenOf(gateway.pid).find(({ role }) => role === 'agents');
    if (victim === 'agent') {
      const programs = agents ? childrenOf(agents.pid) : [];
      if (programs.length === 0) return [];
      const { pid } = this.#random.pick(programs);
      const tag = tagIn(pid);
      const doomed = tag === null ? [] : taggedWith(tag);
      end(pid);
      return doomed;
    }
    // It stands still for the roll call.
    if (victim !== 'agents') process.kill(gateway.pid, 'SIGSTOP');
    const doomed = this.#tagged();
    if (victim.startsWith('agents') && agents) end(agents.pid);
    if (victim === 'agents') {
      this.#deaths.push(performance.now());
      return doomed;
    }
    await gateway.kill();
    if (victim === 'supervisor twice') {
      const starting = gateway.start().catch(() => {});
      await pause(this.#random.between(0, 250));
      await gateway.kill();
      await starting;
    }
    this.#deaths = [];
    await gateway.start();
    // A new gateway has ended what the dead one left before it answers.
    for (const { pid } of doomed.filter((one) => compareIdentity(one) === 'same'))
      this.tally.violated(victim, [`the process ${pid} of an agent of the dead gateway runs beside the new one.`]);
    return doomed;
  }

  async #gone(where: string, doomed: readonly ProcessIdentity[]): Promise<void> {
    this.tally.add('processes of agents that had to go', doomed.length);
    const left = () => doomed.filter((one) => compareIdentity(one) === 'same');
    if (await eventually(GONE_MS, () => left().length === 0)) return;
    this.tally.violated(
      where,
      left().map(({ pid }) => `the process ${pid} of an agent is left.`),
    );
  }

  #tagged(): ProcessIdentity[] {
    return taggedWith(tagOf(this.#gateway.dataDir));
  }

  #giveUp(where: string, what: string): false {
    this.tally.violated(where, [what, `the daemon's last words: ${this.#gateway.log.slice(-2000)}`]);
    return false;
  }
}

function tagIn(pid: number): string | null {
  try {
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    return environment.find((one) => one.startsWith(`${TAG_VARIABLE}=`))?.slice(TAG_VARIABLE.length + 1) ?? null;
  } catch {
    return null;
  }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It was ending already.
  }
}
