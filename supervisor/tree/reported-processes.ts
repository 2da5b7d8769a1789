/** The processes that a child has started, as it reports them with frames `toolProcess`: each is the leader of a group. */
import { LIMITS } from '../../protocol/limits.ts';
import { identityOf, type ProcessIdentity } from '../../storage/processes/process-identity.ts';
import type { ChildReports } from './child.ts';

export class ReportedProcesses {
  readonly #role: string;
  readonly #onProcess: ChildReports['onProcess'];
  readonly #leaders = new Map<number, ProcessIdentity>();

  /** `role` is the one that the record of children has for them. */
  constructor(role: string, onProcess: ChildReports['onProcess']) {
    this.#role = role;
    this.#onProcess = onProcess;
  }

  /** One was started or has ended. False for a report that is malformed. */
  report(pid: unknown, alive: unknown): boolean {
    if (!Number.isSafeInteger(pid) || (pid as number) <= 1 || typeof alive !== 'boolean') return false;
    const id = pid as number;
    if (alive && id !== process.pid && this.#leaders.size < LIMITS.reportedProcesses) {
      this.#leaders.set(id, identityOf(id));
      this.#onProcess(id, this.#role, true);
    } else if (!alive && this.#leaders.delete(id)) {
      this.#onProcess(id, this.#role, false);
    }
    return true;
  }

  /** The child is gone: those that it has left, for the caller to end before it calls `ended`. */
  takeAll(): ProcessIdentity[] {
    const left = [...this.#leaders.values()];
    this.#leaders.clear();
    return left;
  }

  ended(processes: readonly ProcessIdentity[]): void {
    for (const { pid } of processes) this.#onProcess(pid, this.#role, false);
  }
}
