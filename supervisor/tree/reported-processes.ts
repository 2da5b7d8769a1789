/** The processes that a child has started, as it reports them with frames `toolProcess`: each is the leader of a group. */

import { LIMITS } from '../../protocol/limits.ts';
import { AGENT_LEADER, GROUP_LEADER } from '../../storage/processes/children.ts';
import { identityOf, type ProcessIdentity } from '../../storage/processes/process-identity.ts';
import type { ChildReports } from './child.ts';

/** `role` is the one that the record of children has for it. */
type Leader = ProcessIdentity & { role: string };

export class ReportedProcesses {
  readonly #onProcess: ChildReports['onProcess'];
  readonly #leaders = new Map<number, Leader>();

  constructor(onProcess: ChildReports['onProcess']) {
    this.#onProcess = onProcess;
  }

  /** One was started or has ended. False for a report that is malformed. */
  report(pid: unknown, alive: unknown, role: unknown): boolean {
    if (!Number.isSafeInteger(pid) || (pid as number) <= 1 || typeof alive !== 'boolean') return false;
    if (role !== AGENT_LEADER && role !== GROUP_LEADER) return false;
    const id = pid as number;
    if (alive && id !== process.pid && this.#leaders.size < LIMITS.reportedProcesses) {
      this.#leaders.set(id, { ...identityOf(id), role });
      this.#onProcess(id, role, true);
    } else if (!alive && this.#leaders.delete(id)) {
      this.#onProcess(id, role, false);
    }
    return true;
  }

  /** The child is gone: those that it has left, for the caller to end before it calls `ended`. */
  takeAll(): Leader[] {
    const left = [...this.#leaders.values()];
    this.#leaders.clear();
    return left;
  }

  ended(processes: readonly Leader[]): void {
    for (const { pid, role } of processes) this.#onProcess(pid, role, false);
  }
}
