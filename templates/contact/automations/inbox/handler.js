/** The longest of each field; the action has the same limits, but says so in less friendly words. */
const FIELDS = { name: 100, email: 254, message: 5000 };
const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;

/** JSON, or the text that a browser posts for a form: `name=Ada&email=…`. */
function readForm(input) {
  if (typeof input === 'string') return Object.fromEntries(new URLSearchParams(input));
  if (input !== null && typeof input === 'object' && !Array.isArray(input)) return input;
  throw new Error('Post a message as JSON or as a form: name, email and message.');
}

function validate(form) {
  const message = {};
  for (const [field, max] of Object.entries(FIELDS)) {
    const text = typeof form[field] === 'string' ? form[field].trim() : '';
    if (text === '') throw new Error(`The field “${field}” is missing.`);
    if (text.length > max) throw new Error(`The field “${field}” has more than ${max} characters.`);
    message[field] = text;
  }
  if (!EMAIL.test(message.email)) throw new Error('The field “email” is not an e-mail address.');
  return message;
}

export default async function inbox({ ctx, input, automation }) {
  // The app may have been given another id than its template has.
  const [app] = automation.ref.split('/');
  const form = readForm(input);
  const message = { ...validate(form), source: 'webhook' };
  if (typeof form.id === 'string' && form.id !== '') message.externalId = form.id.slice(0, 200);
  const { status, body } = await ctx.tool('svc_write', { app, action: 'send', input: message });
  const known = status === 200;
  const summary = known ? `message ${body.id} came again` : `a message from ${body.name}`;
  return { summary, output: { id: body.id, known } };
}
