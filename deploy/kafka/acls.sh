#!/usr/bin/env bash
# Grants each part of ragweir, one user each, the rights that it needs on a Kafka with ACLs:
#   deploy/kafka/acls.sh --bootstrap-server kafka:9092 --command-config admin.properties
# The arguments are passed to Kafka's kafka-acls.sh, or to the command in KAFKA_ACLS: KAFKA_ACLS=echo only prints.
# PREFIX is topics.prefix; INPUT_TOPIC is input.topic, if it is set. JUDGE=yes adds the rights for judging, if
# judge.base_url is set; FAUST=yes lets evaluate run on Faust; OTLP=yes lets both write the topic of output.otlp, if it is
# set, which is OTLP_TOPIC if output.otlp.topic is. FORMAT is output.format, if it is set. TRACES="otlp_spans ..." names
# the topics of OpenTelemetry data, if input.format is "otlp". FEEDBACK=yes adds the rights for feedback of users,
# CONSOLE=yes those of the console, and BLAME=yes lets evaluate and the judge write rows of documents, if blame.enabled is on.
set -euo pipefail

connection=("$@")
prefix=${PREFIX-rag.}
input=${INPUT_TOPIC:-${prefix}interactions}
# The needs of parts and topics, "yes" or nothing.
judge=${JUDGE:-} feedback=${FEEDBACK:-} console=${CONSOLE:-} blame=${BLAME:-} otlp=${OTLP:-} format=${FORMAT:+yes} traces=${TRACES:+yes}
read -ra sources <<<"${TRACES:-}"
# Group name of readers without a group; Kafka's clients look it up nevertheless.
reader=ragweir-reader

needs() { # NEED...
    local each
    for each; do
        [[ ${!each} == yes ]] || return 1
    done
}

allow() { # USER OPERATION RESOURCE...
    "${KAFKA_ACLS:-kafka-acls.sh}" ${connection[@]+"${connection[@]}"} --add --allow-principal "User:$1" \
        --operation "$2" "${@:3}"
}

# From the topic table and the table of parts, by `python -m tools.reference`.
# <parts>

# publish
allow ragweir-publish Write --topic "${prefix}interactions"
if needs feedback; then
    allow ragweir-publish Write --topic "${prefix}feedback"
fi

# evaluate
allow ragweir-evaluate Read --topic "$input" --topic "${prefix}redrive" --topic "${prefix}evaluations"
allow ragweir-evaluate Write --topic "${prefix}evaluations" --topic "${prefix}dead-letter"
allow ragweir-evaluate Read --group "${prefix}evaluate" --group "${prefix}evaluate.progress"
allow ragweir-operator Describe --group "${prefix}evaluate"
allow ragweir-evaluate Describe --group "$reader"
allow ragweir-evaluate Write --transactional-id "${prefix}evaluate-" --resource-pattern-type prefixed
if needs blame; then
    allow ragweir-evaluate Write --topic "${prefix}documents"
fi
if needs format; then
    allow ragweir-evaluate Write --topic "${prefix}evaluations.$FORMAT"
fi
if needs judge; then
    allow ragweir-evaluate Read --topic "${prefix}control"
    allow ragweir-evaluate Write --topic "${prefix}judge.requests"
fi
if needs otlp; then
    allow ragweir-evaluate Write --topic "${OTLP_TOPIC:-${prefix}otlp.evaluations}"
fi

# key
if needs feedback traces; then
    allow ragweir-key Write --topic "${prefix}feedback"
fi
if needs traces; then
    allow ragweir-key Write --topic "${prefix}spans" --topic "${prefix}dead-letter"
    allow ragweir-key Read --group "${prefix}key"
    allow ragweir-operator Describe --group "${prefix}key"
    allow ragweir-key Write --transactional-id "${prefix}key-" --resource-pattern-type prefixed
fi

# join
if needs traces; then
    allow ragweir-join Read --topic "${prefix}spans" --topic "${prefix}assembly"
    allow ragweir-join Write --topic "${prefix}interactions" --topic "${prefix}assembly" --topic "${prefix}dead-letter"
    allow ragweir-join Read --group "${prefix}join"
    allow ragweir-operator Describe --group "${prefix}join"
    allow ragweir-join Describe --group "$reader"
    allow ragweir-join Write --transactional-id "${prefix}join-" --resource-pattern-type prefixed
fi

# judge
if needs blame judge; then
    allow ragweir-judge Write --topic "${prefix}documents"
fi
if needs format judge; then
    allow ragweir-judge Write --topic "${prefix}evaluations.$FORMAT"
fi
if needs judge; then
    allow ragweir-judge Read --topic "${prefix}judge.requests" --topic "${prefix}judge.retry" --topic "${prefix}judge.deferred" --topic "${prefix}judge.ledger"
    allow ragweir-judge Write --topic "${prefix}evaluations" --topic "${prefix}judge.retry" --topic "${prefix}judge.deferred" --topic "${prefix}judge.ledger" --topic "${prefix}judge.anchors" --topic "${prefix}dead-letter"
    allow ragweir-judge Read --group "${prefix}judge" --group "${prefix}judge.progress"
    allow ragweir-operator Describe --group "${prefix}judge"
    allow ragweir-judge Describe --group "$reader"
    allow ragweir-judge Write --transactional-id "${prefix}judge-" --resource-pattern-type prefixed
fi
if needs judge otlp; then
    allow ragweir-judge Write --topic "${OTLP_TOPIC:-${prefix}otlp.evaluations}"
fi

# aggregate
allow ragweir-aggregate Read --topic "${prefix}evaluations" --topic "${prefix}windows"
allow ragweir-aggregate Write --topic "${prefix}windows" --topic "${prefix}dead-letter"
allow ragweir-aggregate Read --group "${prefix}aggregate"
allow ragweir-operator Describe --group "${prefix}aggregate"
allow ragweir-aggregate Describe --group "$reader"
allow ragweir-aggregate Write --transactional-id "${prefix}aggregate-" --resource-pattern-type prefixed
if needs format; then
    allow ragweir-aggregate Write --topic "${prefix}windows.$FORMAT"
fi

# match
if needs feedback; then
    allow ragweir-match Read --topic "${prefix}evaluations" --topic "${prefix}feedback" --topic "${prefix}feedback.waiting"
    allow ragweir-match Write --topic "${prefix}feedback.waiting" --topic "${prefix}feedback.unmatched" --topic "${prefix}feedback.keyed"
    allow ragweir-match Read --group "${prefix}match"
    allow ragweir-operator Describe --group "${prefix}match"
    allow ragweir-match Describe --group "$reader"
    allow ragweir-match Write --transactional-id "${prefix}match-" --resource-pattern-type prefixed
fi

# tally
if needs feedback; then
    allow ragweir-tally Read --topic "${prefix}feedback.keyed" --topic "${prefix}feedback.joined"
    allow ragweir-tally Write --topic "${prefix}feedback.unmatched" --topic "${prefix}feedback.joined" --topic "${prefix}feedback.windows"
    allow ragweir-tally Read --group "${prefix}tally"
    allow ragweir-operator Describe --group "${prefix}tally"
    allow ragweir-tally Describe --group "$reader"
    allow ragweir-tally Write --transactional-id "${prefix}tally-" --resource-pattern-type prefixed
fi

# planner
if needs judge; then
    allow ragweir-planner Read --topic "${prefix}judge.ledger" --topic "${prefix}windows" --topic "${prefix}control"
    allow ragweir-planner Write --topic "${prefix}control"
    allow ragweir-planner Describe --group "$reader"
    allow ragweir-planner Write --transactional-id "${prefix}planner-" --resource-pattern-type prefixed
fi

# export
allow ragweir-export Read --topic "${prefix}windows"
allow ragweir-export Describe --group "$reader"
if needs judge; then
    allow ragweir-export Read --topic "${prefix}judge.anchors"
fi

# console
if needs blame console; then
    allow ragweir-console Read --topic "${prefix}documents"
fi
if needs console; then
    allow ragweir-console Read --topic "$input" --topic "${prefix}redrive" --topic "${prefix}evaluations" --topic "${prefix}labels" --topic "${prefix}labels.draws" --topic "${prefix}dead-letter"
    allow ragweir-console Write --topic "${prefix}labels"
    allow ragweir-console Describe --group "$reader"
fi
if needs console feedback; then
    allow ragweir-console Read --topic "${prefix}feedback.joined"
fi

# operator
allow ragweir-operator Write --topic "${prefix}redrive" --topic "${prefix}labels" --topic "${prefix}labels.draws"
if needs feedback; then
    allow ragweir-operator Write --topic "${prefix}feedback"
fi
# </parts>

# Evaluate on Faust has a group of its own.
if [[ ${FAUST:-} == yes ]]; then
    allow ragweir-evaluate Read --group "${prefix}evaluate-faust"
fi

# The topics of OpenTelemetry data, which key reads.
for topic in ${sources[@]+"${sources[@]}"}; do
    allow ragweir-key Read --topic "$topic"
    allow ragweir-operator Read --topic "$topic"
    allow ragweir-operator DescribeConfigs --topic "$topic"
done

# Operators: ragweir topics, doctor, tap, compare, explain, dead-letter and labels. They create topics and read; they
# only write redriven dead letters, draws and labels.
allow ragweir-operator Create --topic "$prefix" --resource-pattern-type prefixed
allow ragweir-operator Read --topic "$prefix" --resource-pattern-type prefixed
# ragweir topics create lets the brokers stamp the records of some topics.
allow ragweir-operator AlterConfigs --topic "$prefix" --resource-pattern-type prefixed
# ragweir topics grow.
allow ragweir-operator Alter --topic "$prefix" --resource-pattern-type prefixed
allow ragweir-operator Read --topic "$input"
# ragweir doctor reads the replication and retention of these topics and of Kafka's own.
allow ragweir-operator DescribeConfigs --topic "$prefix" --resource-pattern-type prefixed
allow ragweir-operator DescribeConfigs --topic "$input" --topic __consumer_offsets --topic __transaction_state
allow ragweir-operator Describe --topic __consumer_offsets --topic __transaction_state
allow ragweir-operator Read --group "${prefix}redrive"
allow ragweir-operator Write --transactional-id "${prefix}redrive-" --resource-pattern-type prefixed
allow ragweir-operator Write --transactional-id "${prefix}labels-" --resource-pattern-type prefixed
allow ragweir-operator Describe --group "$reader"
# Replays by operators: all rights in the topics, groups and transactional ids of runs.
allow ragweir-operator Write --topic "${prefix}run." --resource-pattern-type prefixed
allow ragweir-operator Delete --topic "${prefix}run." --resource-pattern-type prefixed
allow ragweir-operator Read --group "${prefix}run." --resource-pattern-type prefixed
allow ragweir-operator Delete --group "${prefix}run." --resource-pattern-type prefixed
allow ragweir-operator Write --transactional-id "${prefix}run." --resource-pattern-type prefixed
