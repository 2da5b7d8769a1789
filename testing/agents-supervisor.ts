/** A process that starts agents like a gateway, to be killed by a test. Prints the pids that must end with it. */
import { eventsOf, finalOf, startAgents } from './agents.ts';

const running = await startAgents();
const pids = await finalOf(running.run(['sleep 1000', 'say {result}', 'daemon 1000', 'say {result}']));
void eventsOf(running.run(['deaf'], { conversation: 'svc-chat:notes:wtwo' }));
const { record, tag, tree } = running;
console.log(JSON.stringify({ pids: pids.split(/\s+/).map(Number), agents: tree.agents?.pid, record, tag }));
