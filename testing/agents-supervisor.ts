/** A process that starts agents like a gateway, to be killed by a test. Prints the pids that must end with it. */
import { eventsOf, SHELLS, shellsOf, startAgents } from './agents.ts';

const running = await startAgents();
const pids = await shellsOf(running.run([...SHELLS, 'hang']));
void eventsOf(running.run(['deaf'], { conversation: 'svc-chat:notes:wtwo' }));
const { record, tag, tree } = running;
console.log(JSON.stringify({ pids, agents: tree.agents?.pid, record, tag }));
