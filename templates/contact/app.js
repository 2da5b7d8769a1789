/** The form. What is wrong with a field is said beside it, before sending and by the gateway's answer. */
import { $, say, toast } from './ui.js';

const { svc } = window;
// Only those who are signed in may read what was sent.
$('pages').hidden = svc.visitor;

const FIELDS = ['name', 'email', 'message'];
const MISSING = {
  name: 'Tell us your name.',
  email: 'Tell us where to answer.',
  message: 'Write a few words.',
};

function problem(field, text) {
  const place = $(`${field}-problem`);
  place.textContent = text;
  place.hidden = text === '';
  $(field).toggleAttribute('aria-invalid', text !== '');
  if (text !== '') $(field).setAttribute('aria-invalid', 'true');
}

function check(field) {
  const { value, validity } = $(field);
  if (value.trim() === '') return MISSING[field];
  return validity.valid ? '' : 'This is not an e-mail address.';
}

for (const field of FIELDS) {
  $(field).addEventListener('input', () => {
    if (!$(`${field}-problem`).hidden) problem(field, check(field));
  });
}

$('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  for (const field of FIELDS) problem(field, check(field));
  const wrong = FIELDS.find((field) => check(field) !== '');
  if (wrong) return $(wrong).focus();
  event.submitter.disabled = true;
  try {
    const input = Object.fromEntries(FIELDS.map((field) => [field, $(field).value.trim()]));
    const { name, email } = await svc.write({ action: 'send', input, once: true });
    $('who').textContent = name;
    $('where').textContent = email;
    $('form').hidden = true;
    $('thanks').hidden = false;
    $('thanks').focus();
    say('Your message has arrived.');
    $('message').value = '';
  } catch (error) {
    const field = FIELDS.find((one) => error.path === `/${one}`);
    if (field) problem(field, field === 'email' ? 'This is not an e-mail address.' : error.message);
    else toast(error.message);
    $(field ?? 'message').focus();
  } finally {
    event.submitter.disabled = false;
  }
});

$('another').addEventListener('click', () => {
  $('thanks').hidden = true;
  $('form').hidden = false;
  $('message').focus();
});
