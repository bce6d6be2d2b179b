"""Makes a fresh Tryton database into that of a small company that sells goods for US dollars.

Usage: company.py DATABASE-URL TRYTOND.CONF   (with the python that Debian's tryton packages belong to)

It runs inside Tryton's own code, through proteus, so that everything is made the way the client makes it.
"""
import datetime
import sys
from decimal import Decimal

from proteus import Model, Wizard, config

# What the integration's user may do: sell, and keep parties and products. It is no administrator.
GROUPS = ['Sales', 'Sales Administrator', 'Product Administration',
          'Party Administration', 'Account']


def one(model, *domain):
    found = Model.get(model).find(list(domain), limit=1)
    if not found:
        raise SystemExit('no %s with %r' % (model, domain))
    return found[0]


def make_currency():
    dollar = Model.get('currency.currency')(
        name='US Dollar', code='USD', numeric_code='840', symbol='$',
        digits=2, rounding=Decimal('0.01'))
    rate = dollar.rates.new()
    rate.date, rate.rate = datetime.date(2020, 1, 1), Decimal(1)
    dollar.save()
    return dollar


def make_company(dollar):
    party = Model.get('party.party')(name='Example Goods Ltd')
    party.save()
    wizard = Wizard('company.company.config')
    wizard.execute('company')
    wizard.form.party, wizard.form.currency = party, dollar
    wizard.execute('add')
    # From here on everything belongs to the company that the administrator now works for.
    settings = config.get_config()
    settings._context = Model.get('res.user').get_preferences(True, settings.context)
    return one('company.company')


def make_accounts(company):
    wizard = Wizard('account.create_chart')
    wizard.execute('account')
    wizard.form.company = company
    wizard.form.account_template = one('account.account.template', ('parent', '=', None))
    wizard.execute('create_account')
    ours = ('company', '=', company.id)
    wizard.form.account_receivable = one('account.account', ('type.receivable', '=', True), ours)
    wizard.form.account_payable = one('account.account', ('type.payable', '=', True), ours)
    wizard.execute('create_properties')

    category = Model.get('product.category')(name='Goods', accounting=True)
    category.account_revenue = one('account.account', ('type.revenue', '=', True), ours)
    category.account_expense = one('account.account', ('type.expense', '=', True), ours)
    category.save()
    # A sale's line without a product (shipping) is invoiced on this account; without it the sale cannot be confirmed.
    defaults = Model.get('account.configuration')(1)
    defaults.default_category_account_revenue = category.account_revenue
    defaults.default_category_account_expense = category.account_expense
    defaults.save()


def make_fiscal_year(company, year):
    """Sales are invoiced as soon as they are confirmed, which takes an open period and its numbers."""
    moves = Model.get('ir.sequence')(
        name='Moves of %d' % year, company=company,
        sequence_type=one('ir.sequence.type', ('name', '=', 'Account Move')))
    moves.save()
    invoices = Model.get('ir.sequence.strict')(
        name='Invoices of %d' % year, company=company,
        sequence_type=one('ir.sequence.type', ('name', '=', 'Invoice')))
    invoices.save()
    fiscal = Model.get('account.fiscalyear')(name=str(year), company=company)
    fiscal.start_date, fiscal.end_date = datetime.date(year, 1, 1), datetime.date(year, 12, 31)
    fiscal.post_move_sequence = moves
    numbers = fiscal.invoice_sequences[0]
    for kind in ('out_invoice', 'out_credit_note', 'in_invoice', 'in_credit_note'):
        setattr(numbers, kind + '_sequence', invoices)
    fiscal.save()
    fiscal.click('create_period')


def make_user(company):
    user = Model.get('res.user')(name='syncd', login='syncd', password='syncd-Secret-1')
    user.save()
    user.companies.append(Model.get('company.company')(company.id))
    user.company = Model.get('company.company')(company.id)
    for group in Model.get('res.group').find([('name', 'in', GROUPS)]):
        user.groups.append(group)
    user.save()


def main(database, conf):
    config.set_trytond(database, user='admin', config_file=conf)
    company = make_company(make_currency())
    make_accounts(company)
    # Two years, so that a run over New Year's Eve does not fail.
    this_year = datetime.date.today().year
    for year in (this_year, this_year + 1):
        make_fiscal_year(company, year)
    term = Model.get('account.invoice.payment_term')(name='Immediate')
    term.lines.new(type='remainder')
    term.save()
    for name, code in (('United States', 'US'), ('Germany', 'DE')):
        Model.get('country.country')(name=name, code=code).save()
    make_user(company)


main(*sys.argv[1:])
