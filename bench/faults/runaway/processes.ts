/** The processes of a gateway as its status names them, and which of them ended between two looks. */
import type { TestGateway } from '../../../testing/gateway.ts';

/** `pid` is null while it is being replaced; `lastExit` says why the one before it ended. */
export type Listed = { name: string; pid: number | null; restarts: number; lastExit: string | null };

export async function processesOf(gateway: TestGateway): Promise<Listed[]> {
  return (await gateway.system()).processes;
}

export type Actor = {
  app: string;
  restarts: number;
  lastExit: string | null;
  place: 'commons' | 'own';
  placeReason: string | null;
};

/** The threads of apps in all processes. */
export async function actorsOf(gateway: TestGateway): Promise<Actor[]> {
  return (await gateway.system()).processes.flatMap(({ actors = [] }: { actors?: Actor[] }) => actors);
}

/** One sentence for each of `before` that is not there any more, with why it ended. */
export function ended(before: Listed[], after: Listed[]): string[] {
  return before.flatMap(({ name, pid }) => {
    const now = after.find((one) => one.name === name);
    if (now !== undefined && now.pid === pid) return [];
    return [`${name} (process ${pid}) ended: ${now === undefined ? 'it was not replaced' : now.lastExit}`];
  });
}

/** Those that are not one app's own, which come and go. */
export function lasting(processes: Listed[]): Listed[] {
  return processes.filter(({ name }) => !name.startsWith('host-for-'));
}
