/** What all templates have in common: they work under another id, and without a connection. */
import { describe } from 'node:test';
import { withoutChromium } from './chromium.ts';
import { clones } from './template-clones.ts';
import { outages } from './template-outages.ts';

describe('clones of templates', { skip: withoutChromium() }, clones);
describe('templates without a connection', { skip: withoutChromium() }, outages);
