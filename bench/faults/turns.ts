/** SIGKILL of an agent, of the process of the agents and of the supervisor while people talk with agents. */
import { join } from 'node:path';
import { compareIdentity, type ProcessIdentity } from '../../storage/processes/process-identity.ts';
import { TAG_VARIABLE, taggedWith, tagOf } from '../../storage/processes/tagged.ts';
import { root, type TestGateway } from '../../testing/gateway.ts';
import { childrenOf, readProc } from '../../testing/processes.ts';
import type { Random } from '../../testing/random.ts';
import { eventually } from '../../testing/waiting.ts';
import type { Campaign, Report } from './campaign.ts';
import { killerOf, signal } from './killer.ts';
import { stopWell, strikeInRounds } from './rounds.ts';
import { Talkers } from './turns/talkers.ts';

const ROUNDS = { full: 100, smoke: 8 };
const WINDOWS = 4;
/** Until nothing is left of what was struck: what is asked to end first takes two steps of `agentEndMs`. */
const GONE_MS = 15_000;
const VICTIMS = ['agent', 'agents', 'supervisor', 'agents and supervisor', 'supervisor twice'] as const;

export const turns: Campaign = {
  name: 'turns',
  question:
    'Is every message that was accepted kept, does its turn run once and end once, and is no process of an agent left, when processes are killed?',
  async run(context) {
    const { random, report } = context;
    const command = [process.execPath, join(root, 'testing/stub-agent.mjs'), '--keep', context.newFolder()];
    const config = { runners: { stub: { kind: 'acp', command } } };
    const gateway = context.newGateway({ config, apps: ['todos'] });
    const killer = killerOf(gateway, context, VICTIMS);
    await gateway.start();
    const talkers = new Talkers(gateway, WINDOWS, random.fork());
    const tagged = () => taggedWith(tagOf(gateway.dataDir));
    const rounds = context.rounds ?? ROUNDS[context.extent];
    await strikeInRounds(context, gateway, {
      numbers: [1, rounds],
      choose: killer.choose,
      working: () => talkers.more(random.between(1, 6)),
      pauseMs: 300,
      strike: async (where, victim) => {
        const doomed = victim === 'agent' ? strikeAgent(gateway, random) : tagged();
        if (victim !== 'agent') await killer.strike(where, victim);
        await gone(report, where, doomed);
      },
      healed: () => talkers.more(1),
      until: 'a turn ends well',
    });
    await talkers.stop();
    report.violated('afterwards', [...talkers.violations, ...(await talkers.verify())]);
    const left = tagged();
    await stopWell(gateway, report);
    await gone(report, 'the stop', left);
    report.violated('afterwards', talkers.verifyWrites());
    report.add('messages accepted', talkers.accepted);
    report.addAll('turns that ended with', talkers.outcomes);
  },
};

/** Ends the program of one agent. What must be gone after it. */
function strikeAgent(gateway: TestGateway, random: Random): ProcessIdentity[] {
  const agents = childrenOf(gateway.pid).find(({ role }) => role === 'agents');
  const programs = agents ? childrenOf(agents.pid) : [];
  if (programs.length === 0) return [];
  const { pid } = random.pick(programs);
  const mark = `${TAG_VARIABLE}=`;
  const tag = readProc(pid, 'environ')
    ?.split('\0')
    .find((one) => one.startsWith(mark));
  const doomed = tag === undefined ? [] : taggedWith(tag.slice(mark.length));
  signal(pid, 'SIGKILL');
  return doomed;
}

async function gone(report: Report, where: string, doomed: readonly ProcessIdentity[]): Promise<void> {
  report.add('processes of agents that had to go', doomed.length);
  const left = () => doomed.filter((one) => compareIdentity(one) === 'same');
  await eventually(GONE_MS, () => left().length === 0);
  report.violated(
    where,
    left().map(({ pid }) => `the process ${pid} of an agent is left.`),
  );
}
