/** Writes the handlers of automations that are made from a form: one that asks an agent, and one that runs an action. Pure. */

/** A text as code: with lines as they are, as far as a template literal can hold them. */
const literal = (text: string): string => `\`${text.replace(/[\\`]|\$(?=\{)/g, '\\$&')}\``;

/** The agent is told the input, if the fire has one. */
export function agentHandler(prompt: string): string {
  return `// Asks an agent. What it answers is the summary of the run.
const PROMPT = ${literal(prompt)};

export default async function run({ ctx, input }) {
  const asked = input === undefined ? PROMPT : \`\${PROMPT}\\n\\nThe input, as JSON:\\n\${JSON.stringify(input)}\`;
  return { summary: await ctx.agent({ prompt: asked }) };
}
`;
}

/** With `input` undefined the action gets what the fire gets: the body of a webhook's request. */
export function actionHandler(app: string, action: string, input: unknown): string {
  const [parameter, given, before] =
    input === undefined
      ? ['{ ctx, input }', 'input', '']
      : ['{ ctx }', 'INPUT', `const INPUT = ${JSON.stringify(input, null, 2)};\n\n`];
  const name = JSON.stringify(action);
  return `// Runs the action ${name} of this app.
${before}export default async function run(${parameter}) {
  const { status, body } = await ctx.tool('svc_write', { app: ${JSON.stringify(app)}, action: ${name}, input: ${given} });
  if (status >= 400) throw new Error(\`${action} answered \${status}: \${JSON.stringify(body)}\`);
  return { summary: \`${action} answered \${status}\`, output: { status, body } };
}
`;
}
