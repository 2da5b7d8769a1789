#!/usr/bin/env node
// `npx svc-gateway`: runs the gateway, with the options of `svc serve`; after a word it is the command `svc`.
const [first = '--'] = process.argv.slice(2);
const isQuestion = ['-h', '--help', '-v', '--version'].includes(first);
if (first.startsWith('-') && !isQuestion) process.argv.splice(2, 0, 'serve');
await import('./svc.js');
