
# Copyright (c) 2026, the quota authors

=pod

=head1 NAME

QuotaTest::Session - a psql that a test talks to, made by QuotaTest::session()

=head1 METHODS

=cut

package QuotaTest::Session;

use strict;
use warnings FATAL => 'all';

use Carp;
use IPC::Run;
use PostgreSQL::Test::Utils;

# psql repeats a marker on both of its outputs after each query
my $marker = 'quota session: end of query';

sub new
{
	my ($class, $node, %options) = @_;
	my $connstr = $node->connstr($options{dbname} // 'postgres');
	$connstr .= " user='$options{user}'" if defined $options{user};
	$connstr .= " options='$options{options}'" if defined $options{options};

	my $self = bless {
		node => $node,
		in => '',
		out => '',
		err => '',
		sent => 0,       # queries sent so far
		pending => 0,    # the last one is not answered yet
	}, $class;
	$self->{timeout} =
	  IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default);
	$self->{psql} = IPC::Run::start(
		[
			$node->installed_command('psql'),
			'-XAtq', '-v', 'VERBOSITY=default', '-d', $connstr
		],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		$self->{timeout});
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

=pod

=over

=item $session->query($sql)

Runs C<$sql> (one or several commands) and returns what it prints.  Dies on an
error.

=cut

sub query
{
	my ($self, $sql) = @_;
	$self->query_async($sql);
	return $self->wait;
}

=pod

=item $session->fails($sql)

Runs C<$sql> and returns the messages, C<''> if there are none: to be compared
with what is expected.

=cut

sub fails
{
	my ($self, $sql) = @_;
	$self->query_async($sql);
	$self->_finish;
	return $self->{err};
}

=pod

=item $session->query_async($sql)

Starts C<$sql> and does not wait.  Ask with C<is_busy>, and get the answer with
C<wait>, before the next query.

=cut

sub query_async
{
	my ($self, $sql) = @_;
	croak "the last query is not answered yet" if $self->{pending};
	croak "this session has ended" unless $self->{psql}->pumpable;

	# a comment may stand at the end
	$sql .= $sql =~ /--/ ? "\n;" : ';'
	  unless $sql =~ /;\s*$/ || $sql =~ /^\s*\\/;
	my $end = "$marker " . ++$self->{sent};
	$self->{pending} = 1;
	$self->{out} = $self->{err} = '';
	$self->{in} .= "$sql\n\\echo '$end'\n\\warn '$end'\n";
	$self->{psql}->pump_nb;
	return;
}

=pod

=item $session->wait

Waits for the end of the query that C<query_async> started and returns what it
printed.  Dies on an error.

=cut

sub wait    ## no critic (ProhibitBuiltinHomonyms)
{
	my ($self) = @_;
	$self->_finish;
	croak $self->{err} if $self->{err} =~ /(ERROR|FATAL|PANIC):|^psql: /m;
	return $self->{out};
}

=pod

=item $session->is_busy

Whether the query that C<query_async> started is still under way.

=cut

sub is_busy
{
	my ($self) = @_;
	return 0 unless $self->{pending};
	$self->{psql}->pump_nb if $self->{psql}->pumpable;
	return !$self->_ended;
}

=pod

=item $session->pid, $session->node

The backend's process id, and the node.

=cut

sub pid { return $_[0]->{pid}; }
sub node { return $_[0]->{node}; }

=pod

=item $session->notices

The notices and warnings of the last query.

=cut

sub notices { return $_[0]->{err}; }

=pod

=item $session->quit

Ends the session and waits until its backend is gone, so that what it held is
given back.

=cut

sub quit
{
	my ($self) = @_;
	if ($self->{psql}->pumpable)
	{
		$self->{in} .= "\\q\n";
		$self->{timeout}->start;
		$self->{psql}->pump while $self->{psql}->pumpable;
	}
	$self->{psql}->finish;
	QuotaTest::wait_gone($self->{node}, $self->{pid});
	return;
}

=pod

=item $session->kill_client

Kills the client without a farewell; the server may not notice while a query
is running.

=cut

sub kill_client
{
	my ($self) = @_;
	$self->{psql}->signal('KILL');
	$self->{psql}->finish;
	return;
}

=pod

=item $session->kill_backend($signal)

Sends the backend a signal: C<'TERM'> (the default) ends the session, C<'INT'>
cancels its query.  (To kill it: crash_backend.)

=back

=cut

sub kill_backend
{
	my ($self, $signal) = @_;
	kill($signal // 'TERM', $self->{pid}) or die "could not kill $self->{pid}: $!";
	return;
}

# Wait for both markers of the last query, or for the end of psql, and leave
# in {out} and {err} what was printed before them.
sub _finish
{
	my ($self) = @_;
	croak "there is no query to wait for" unless $self->{pending};

	$self->{timeout}->start;
	until ($self->_ended)
	{
		croak "timed out, query $self->{sent} of session $self->{pid}: "
		  . "$self->{out}$self->{err}"
		  if $self->{timeout}->is_expired;
		$self->{psql}->pump;
	}
	s/\n?\Q$marker\E \d+\n// or chomp for ($self->{out}, $self->{err});
	$self->{pending} = 0;
	return;
}

sub _ended
{
	my ($self) = @_;
	my $end = qr/^\Q$marker\E $self->{sent}\n/m;
	return 1 if $self->{out} =~ $end && $self->{err} =~ $end;
	return !$self->{psql}->pumpable;
}

1;
