/** Connections until no file descriptor is left, under a limit that is low enough to get there. */
import { Agent } from 'node:http';
import { outcomeOf } from '../../../testing/clients.ts';
import type { EdgeKind } from '../../../testing/gateway.ts';
import { eventually, pause, within } from '../../../testing/waiting.ts';
import type { CampaignContext } from '../campaign.ts';
import { dismiss, openCrowd } from './crowd.ts';

/** So many that the reserve is more than the system lets wait to be taken, and so is taken at once. */
const DESCRIPTORS = 2100;
const CONNECTIONS = 4000;
/** Files that are opened anew for each call, so that a supervisor without descriptors must fail. */
const CALLS = 20;
const BETWEEN_CALLS_MS = 500;
const CALL_MS = 30_000;

export async function exhaustDescriptors(edge: EdgeKind, { report, newGateway }: CampaignContext): Promise<void> {
  const gateway = newGateway({ edge, apps: ['todos'], descriptors: DESCRIPTORS });
  // An open connection, so that the calls get through; those that had to be opened are counted.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const connect = agent.createConnection.bind(agent);
  let connections = 0;
  agent.createConnection = (...given) => {
    connections++;
    return connect(...given);
  };
  const call = async (path: string): Promise<string> => {
    const answer = await within(
      CALL_MS,
      gateway.call('GET', path, { agent }).catch(() => null),
    );
    return answer === 'late' ? answer : outcomeOf(answer);
  };
  try {
    await gateway.start();
    const opening = openCrowd(gateway.port, CONNECTIONS);
    const isOpened = opening.then(() => true);
    // An idle connection is ended, and opening the others takes a busy machine longer than that.
    do await call('/svc/_health');
    while (!(await Promise.race([isOpened, pause(BETWEEN_CALLS_MS, false)])));
    const crowd = await opening;
    const failed: string[] = [];
    const before = connections;
    for (let i = 0; i < CALLS; i++) {
      const outcome = await call('/svc/_logs?app=todos');
      if (outcome !== '200') failed.push(outcome);
    }
    if (failed.length > 0)
      report.violated(edge, `without descriptors ${failed.length} of ${CALLS} calls failed (${failed[0]})`);
    if (connections > before) report.violated(edge, 'without descriptors an open connection was ended');
    const isOpen = crowd.filter(({ socket }) => !socket.closed).length;
    report.figure(
      `${edge}: ${CONNECTIONS} connections where ${DESCRIPTORS} descriptors are`,
      `${isOpen} open, ${CALLS - failed.length} of ${CALLS} calls served beside them`,
    );
    dismiss(crowd);
    const isServed = () =>
      gateway.call('GET', '/svc/_health', { agent: false }).then(
        ({ status }) => status === 200,
        () => false,
      );
    if (!(await eventually(20_000, isServed)))
      report.violated(edge, 'no new connection is served after the others have gone');
  } catch (error) {
    report.violated(edge, `with few descriptors: ${(error as Error).message}`);
  } finally {
    agent.destroy();
    await gateway.stop();
  }
}
