// Marks the parts of code with the classes of highlight.js. JavaScript, because the types of highlight.js bring those of
// browsers into the whole project.
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import css from 'highlight.js/lib/languages/css';
import ini from 'highlight.js/lib/languages/ini';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import nginx from 'highlight.js/lib/languages/nginx';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

const LANGUAGES = { sh: bash, js: javascript, ts: typescript, json, sql, html: xml, css, ini, nginx, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** HTML, or null for a language that it does not know. */
export function highlighted(text, language) {
  return Object.hasOwn(LANGUAGES, language) ? hljs.highlight(text, { language }).value : null;
}
