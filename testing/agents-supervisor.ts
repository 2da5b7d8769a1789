/** A process that starts agents like a gateway, to be killed by a test. Prints the pids that must end with it. */
import { SHELLS, shellsOf, startAgents } from './agents.ts';

const running = await startAgents();
const pids = await shellsOf(running.run([...SHELLS, 'hang']));
const deaf = running.run(['say deaf', 'deaf'], { conversation: 'svc-chat:notes:wtwo' });
// Until it has heard that, its agent ends with its input, which nobody is to count on.
while ((await deaf.next()).value?.type !== 'assistant.delta');
void deaf.next();
const { record, tag, tree } = running;
console.log(JSON.stringify({ pids, agents: tree.agents?.pid, record, tag }));
