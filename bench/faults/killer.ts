/** Ends processes of a daemon with SIGKILL, chosen by chance, and starts the daemon again as a service manager does. */
import { LIMITS } from '../../protocol/limits.ts';
import { compareIdentity } from '../../storage/processes/process-identity.ts';
import { taggedWith, tagOf } from '../../storage/processes/tagged.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { type Child, childrenOf } from '../../testing/processes.ts';
import { pause } from '../../testing/waiting.ts';
import type { CampaignContext } from './campaign.ts';
import type { Span } from './crowd.ts';

/** The roles that a victim may name. Of the hosts one is ended. */
const ROLES = ['writer', 'host', 'jobs', 'agents'] as const;

/** A role that dies more often than this within the gateway's restart window is given up or isolated, as it should be. */
const DEATHS_IN_A_WINDOW = LIMITS.restartIntensity - 1;

/** Of `Victim`s, whose names say which roles are ended. */
export function killerOf<Victim extends string>(
  gateway: TestGateway,
  { random, report }: Pick<CampaignContext, 'random' | 'report'>,
  victims: readonly Victim[],
) {
  /** When the supervisor was dead. */
  const outages: Span[] = [];
  /** When processes died, in milliseconds of `performance.now()`, and which daemon may count it against a role. */
  const deaths: { role: Child['role']; at: number; daemon: number }[] = [];

  function choose(): Victim {
    const since = performance.now() - LIMITS.restartWindowMs - 1000;
    const often = (role: Child['role']) =>
      deaths.filter((one) => one.role === role && one.at > since && one.daemon === gateway.pid).length >=
      DEATHS_IN_A_WINDOW;
    const spared = ROLES.filter(often);
    return random.pick(
      victims.filter((victim) => victim.includes('supervisor') || !spared.some((role) => victim.includes(role))),
    );
  }

  /** Rejects when the daemon does not start again. */
  async function strike(where: string, victim: Victim): Promise<void> {
    const children = childrenOf(gateway.pid);
    const struck =
      victim === 'all'
        ? children
        : ROLES.filter((role) => victim.includes(role)).flatMap((role) => {
            const of = children.filter((child) => child.role === role);
            return role === 'host' && of.length > 0 ? [random.pick(of)] : of;
          });
    for (const child of struck) end(child);
    if (!victim.includes('supervisor') && victim !== 'all') return;
    // Sometimes late enough for the replacement of a child to be under way.
    if (struck.length > 0 && victim !== 'all') await pause(random.pick([0, 0, random.between(0, 150)]));
    await killDaemon(where, victim === 'supervisor twice');
  }

  function end({ pid, role }: Child): void {
    deaths.push({ role, at: performance.now(), daemon: gateway.pid });
    signal(pid, 'SIGKILL');
  }

  async function killDaemon(where: string, twice: boolean): Promise<void> {
    const outage: Span = { from: performance.now(), to: Number.POSITIVE_INFINITY };
    outages.push(outage);
    // It stands still for the roll call, so that none of its processes is missed.
    process.kill(gateway.pid, 'SIGSTOP');
    const family = [...childrenOf(gateway.pid), ...taggedWith(tagOf(gateway.dataDir))];
    deaths.push({ role: 'other', at: performance.now(), daemon: gateway.pid });
    await gateway.kill();
    if (twice) {
      const starting = gateway.start().catch(() => {});
      await pause(random.between(0, 250));
      await gateway.kill();
      await starting;
    }
    const startedAt = performance.now();
    await gateway.start();
    outage.to = performance.now();
    report.measured('daemon started after a kill, until ready', outage.to - startedAt);
    const orphans = family.filter((child) => compareIdentity(child) === 'same');
    report.violated(
      where,
      orphans.map(({ pid }) => `the process ${pid} of the dead daemon runs beside the new one.`),
    );
  }

  return { outages, deaths, choose, strike };
}

/** Sends a signal to a process that may have ended already. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
